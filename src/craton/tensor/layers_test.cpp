#include "craton/tensor/layers.h"

#include <gtest/gtest.h>

#include "craton/base/error.h"
#include "craton/tensor/processor.h"
#include "craton/tensor/threads.h"

namespace craton::tensor {
namespace {

using torch::Tensor;
using Layer = std::function<Tensor(const std::vector<Tensor>&)>;

/// A layer, what it should compute in plain libtorch, and the shapes of its inputs.
struct Case {
  std::string name;
  Layer ours, plain;
  std::vector<std::vector<int64_t>> shapes;
};

void PrintTo(const Case& c, std::ostream* os) { *os << c.name; }

Tensor plain_rms(const Tensor& x, const Tensor& w) {
  return x * torch::rsqrt(x.square().mean(-1, true) + 1e-5) * w;
}

Tensor plain_rotate(const Tensor& x, const Tensor& angle) {
  const int64_t half = x.size(3) / 2, r = angle.size(-1);
  const Tensor c = torch::cos(angle).unsqueeze(-2), s = torch::sin(angle).unsqueeze(-2);
  const Tensor a = x.narrow(3, 0, r), b = x.narrow(3, half, r);
  return torch::cat(
      {a * c - b * s, x.narrow(3, r, half - r), a * s + b * c, x.narrow(3, half + r, half - r)}, 3);
}

/// Both results of a layer with two, so that both gradients flow.
Tensor joined(const std::tuple<Tensor, Tensor>& pair) {
  return torch::cat({std::get<0>(pair), std::get<1>(pair)}, -1);
}

Tensor angles(const Tensor& like, std::vector<int64_t> shape) {
  return torch::arange(double(torch::tensor(shape).prod().item<int64_t>()), like.options())
      .mul(0.37)
      .view(shape);
}

namespace F = torch::nn::functional;

const Case kCases[] = {
    {"linear",
     [](const auto& t) { return tensor::linear(t[0], t[1], t[2]); },
     [](const auto& t) { return F::linear(t[0], t[1], t[2]); },
     {{2, 70, 13}, {21, 13}, {21}}},
    {"linear_without_bias",
     [](const auto& t) { return tensor::linear(t[0], t[1]); },
     [](const auto& t) { return F::linear(t[0], t[1]); },
     {{5, 16}, {3, 16}}},
    {"linear_transposed",
     [](const auto& t) { return tensor::linear(t[0].transpose(0, 1), t[1], t[2]); },
     [](const auto& t) { return F::linear(t[0].transpose(0, 1), t[1], t[2]); },
     {{3, 4, 8}, {5, 8}, {5}}},
    {"linear_gelu",
     [](const auto& t) { return linear_gelu(t[0], t[1], t[2]); },
     [](const auto& t) { return torch::gelu(F::linear(t[0], t[1], t[2])); },
     {{2, 70, 13}, {21, 13}, {21}}},
    {"gelu_mlp",
     [](const auto& t) { return gelu_mlp(t[0], t[1], t[2], t[3], t[4]); },
     [](const auto& t) { return F::linear(torch::gelu(F::linear(t[0], t[1], t[2])), t[3], t[4]); },
     {{2, 140, 12}, {37, 12}, {37}, {12, 37}, {12}}},
    {"silu_mul",
     [](const auto& t) { return silu_mul(t[0], t[1]); },
     [](const auto& t) { return torch::silu(t[0]) * t[1]; },
     {{3, 61}, {3, 61}}},
    {"layer_norm",
     [](const auto& t) { return layer_norm(t[0], t[1], t[2], 1e-6); },
     [](const auto& t) { return torch::layer_norm(t[0], {t[0].size(-1)}, t[1], t[2], 1e-6); },
     {{3, 90, 37}, {37}, {37}}},
    {"layer_norm_narrow",
     [](const auto& t) { return layer_norm(t[0], t[1], t[2], 1e-3); },
     [](const auto& t) { return torch::layer_norm(t[0], {t[0].size(-1)}, t[1], t[2], 1e-3); },
     {{4, 3}, {3}, {3}}},
    {"add_layer_norm",
     [](const auto& t) { return joined(add_layer_norm(t[0], t[1], t[2], t[3], 1e-6)); },
     [](const auto& t) {
       const Tensor sum = t[0] + t[1];
       return torch::cat({sum, torch::layer_norm(sum, {sum.size(-1)}, t[2], t[3], 1e-6)}, -1);
     },
     {{2, 150, 24}, {2, 150, 24}, {24}, {24}}},
    {"rms_norm",
     [](const auto& t) { return rms_norm(t[0], t[1], 1e-5); },
     [](const auto& t) { return plain_rms(t[0], t[1]); },
     {{2, 150, 29}, {29}}},
    {"add_rms_norm",
     [](const auto& t) { return joined(add_rms_norm(t[0], t[1], t[2], 1e-5)); },
     [](const auto& t) {
       return torch::cat({t[0] + t[1], plain_rms(t[0] + t[1], t[2])}, -1);
     },
     {{5, 16}, {5, 16}, {16}}},
    {"rotate",
     [](const auto& t) {
       const Tensor a = angles(t[0], {t[0].size(1), 10});
       return tensor::rotate(t[0], torch::cos(a), torch::sin(a));
     },
     [](const auto& t) {
       return plain_rotate(t[0], angles(t[0], {t[0].size(1), 10}));
     },
     {{2, 7, 3, 24}}},
    {"rotate_each_sample",
     [](const auto& t) {
       const Tensor a = angles(t[0], {t[0].size(0), t[0].size(1), 8});
       return tensor::rotate(t[0], torch::cos(a), torch::sin(a));
     },
     [](const auto& t) {
       return plain_rotate(t[0], angles(t[0], {t[0].size(0), t[0].size(1), 8}));
     },
     {{3, 5, 2, 16}}},
    {"rotate_packed",
     [](const auto& t) {
       const Tensor a = angles(t[0], {t[0].size(1), 8});
       return tensor::rotate(t[0], torch::cos(a), torch::sin(a), 4);
     },
     [](const auto& t) {
       const Tensor a = angles(t[0], {t[0].size(1), 8});
       return torch::cat({plain_rotate(t[0].narrow(2, 0, 4), a), t[0].narrow(2, 4, 2)}, 2);
     },
     {{2, 9, 6, 16}}},
};

std::vector<Tensor> inputs(const Case& c, torch::ScalarType type) {
  torch::manual_seed(11);
  std::vector<Tensor> result;
  for (const auto& shape : c.shapes) {
    result.push_back(
        torch::randn(shape, torch::kDouble).to(torch::kFloat).to(type).requires_grad_());
  }
  return result;
}

/// The output, then the gradient of each input, for a fixed gradient of the output.
std::vector<Tensor> differentiate(const Layer& layer, const std::vector<Tensor>& in) {
  Tensor out = layer(in);
  torch::manual_seed(12);
  out.backward(torch::randn(out.sizes(), torch::kDouble).to(out.scalar_type()));
  std::vector<Tensor> result{out.detach()};
  for (const Tensor& x : in) result.push_back(x.grad());
  return result;
}

double relative_error(const Tensor& a, const Tensor& b) {
  const Tensor reference = b.to(torch::kDouble);
  return (a.to(torch::kDouble) - reference).norm().item<double>() /
         std::max(1e-30, reference.norm().item<double>());
}

class LayerCases : public testing::TestWithParam<Case> {
 protected:
  void TearDown() override {
    use_portable_kernels(false);
    set_threads(1);
  }
};

TEST_P(LayerCases, DoubleEqualsPlainLibtorch) {
  const auto ours = differentiate(GetParam().ours, inputs(GetParam(), torch::kDouble));
  const auto plain = differentiate(GetParam().plain, inputs(GetParam(), torch::kDouble));
  for (size_t i = 0; i < ours.size(); ++i) {
    ASSERT_EQ(ours[i].sizes(), plain[i].sizes()) << i;
    EXPECT_LE((ours[i] - plain[i]).abs().max().item<double>(), 1e-11) << i;
  }
}

TEST_P(LayerCases, FloatIsWithinRounding) {
  const auto plain = differentiate(GetParam().plain, inputs(GetParam(), torch::kDouble));
  for (const bool portable : {false, true}) {
    use_portable_kernels(portable);
    const auto ours = differentiate(GetParam().ours, inputs(GetParam(), torch::kFloat));
    for (size_t i = 0; i < ours.size(); ++i)
      EXPECT_LE(relative_error(ours[i], plain[i]), 2e-6) << i;
  }
}

TEST_P(LayerCases, GradientEqualsFiniteDifferences) {
  const std::vector<Tensor> in = inputs(GetParam(), torch::kDouble);
  const Tensor weights = torch::randn(GetParam().ours(in).sizes(), torch::kDouble);
  const auto loss = [&] { return (GetParam().ours(in) * weights).sum(); };
  loss().backward();
  torch::NoGradGuard no_grad;
  for (const Tensor& x : in) {
    const Tensor direction = torch::randn(x.sizes(), torch::kDouble);
    const double step = 1e-6;
    x.add_(direction, step);
    const double above = loss().item<double>();
    x.add_(direction, -2 * step);
    const double below = loss().item<double>();
    x.add_(direction, step);
    const double expected = (x.grad() * direction).sum().item<double>();
    EXPECT_NEAR((above - below) / (2 * step), expected, 1e-6 * std::max(1.0, std::abs(expected)));
  }
}

TEST_P(LayerCases, BitsDoNotDependOnThreads) {
  const Layer& layer = GetParam().ours;
  if (GetParam().name.find("linear") != std::string::npos || GetParam().name == "gelu_mlp") {
    GTEST_SKIP() << "matrix products are OpenBLAS's; their sums depend on its threads";
  }
  const auto one = differentiate(layer, inputs(GetParam(), torch::kFloat));
  set_threads(3);
  const auto three = differentiate(layer, inputs(GetParam(), torch::kFloat));
  for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(torch::equal(one[i], three[i])) << i;
}

INSTANTIATE_TEST_SUITE_P(All, LayerCases, testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

TEST(Layers, GeluHoldsInTheTails) {
  const Tensor weight = torch::ones({1, 1}), x = torch::linspace(-40, 40, 4001).view({-1, 1});
  const Tensor expected = torch::gelu(x.to(torch::kDouble));
  EXPECT_LE((linear_gelu(x, weight).to(torch::kDouble) - expected)
                .abs()
                .div(expected.abs() + 1)
                .max()
                .item<double>(),
            3e-7);
}

TEST(Layers, NotANumberShows) {
  Tensor x = torch::ones({2, 16});
  x[0][3] = std::numeric_limits<float>::quiet_NaN();
  const Tensor ones = torch::ones({16}), eye = torch::eye(16);
  EXPECT_TRUE(layer_norm(x, ones, ones)[0].isnan().all().item<bool>());
  EXPECT_FALSE(layer_norm(x, ones, ones)[1].isnan().any().item<bool>());
  EXPECT_TRUE(silu_mul(x, x)[0][3].isnan().item<bool>());
  EXPECT_TRUE(linear_gelu(x, eye)[0].isnan().any().item<bool>());
}

TEST(Layers, EmptyInput) {
  const Tensor x = torch::empty({0, 8}).requires_grad_(), w = torch::randn({8}).requires_grad_();
  layer_norm(x, w, w).sum().backward();
  EXPECT_TRUE(torch::equal(w.grad(), torch::zeros({8})));
  EXPECT_EQ(gelu_mlp(x, torch::randn({4, 8}), {}, torch::randn({8, 4}), {}).size(0), 0);
}

TEST(Layers, WrongShapesAreErrors) {
  const Tensor x = torch::ones({2, 8});
  EXPECT_THROW(tensor::linear(x, torch::ones({3, 7})), Error);
  EXPECT_THROW(layer_norm(x, torch::ones({7}), torch::ones({7})), Error);
  EXPECT_THROW(add_rms_norm(x, torch::ones({2, 7}), torch::ones({8})), Error);
  EXPECT_THROW(tensor::rotate(x, x, x), Error);
  EXPECT_THROW(layer_norm(x.to(torch::kHalf), torch::ones({8}), torch::ones({8})), Error);
}

}  // namespace
}  // namespace craton::tensor
