#include "craton/tensor/adamw.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "craton/tensor/adamw_kernel.h"
#include "craton/tensor/processor.h"
#include "craton/tensor/torch.h"

namespace craton::tensor {
namespace {

std::vector<float> random_floats(size_t n, unsigned seed, float scale = 1) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> x(n);
  for (float& value : x) value = normal(generator);
  return x;
}

struct State {
  std::vector<float> param, m, v;
};

State start(size_t n) {
  State s{random_floats(n, 1), random_floats(n, 2, 0.1f), random_floats(n, 3, 0.1f)};
  for (float& v : s.v) v *= v;
  return s;
}

TEST(AdamW, VectorsHaveTheBitsOfThePlainLoop) {
  const size_t n = 1003;
  State a = start(n), b = start(n);
  for (int64_t step = 1; step <= 3; ++step) {
    const auto grad = random_floats(n, 10 + unsigned(step), step == 2 ? 1e-20f : 3);
    const AdamWStep s{1e-3, 0.9, 0.95, 1e-8, 0.05, 0.37, step};
    EXPECT_TRUE(adamw_update(a.param.data(), a.m.data(), a.v.data(), grad.data(), n, s));
    EXPECT_TRUE(
        plain_adamw(b.param.data(), b.m.data(), b.v.data(), grad.data(), n, adamw_factors(s)));
  }
  EXPECT_EQ(a.param, b.param);
  EXPECT_EQ(a.m, b.m);
  EXPECT_EQ(a.v, b.v);
}

TEST(AdamW, PiecesHaveTheBitsOfTheWhole) {
  const size_t n = 500;
  State a = start(n), b = start(n);
  const auto grad = random_floats(n, 4);
  const AdamWStep s{1e-3, 0.9, 0.999, 1e-8, 0.1, 1, 5};
  adamw_update(a.param.data(), a.m.data(), a.v.data(), grad.data(), n, s);
  for (size_t i = 0; i < n;) {
    const size_t piece = std::min<size_t>(n - i, 37);
    adamw_update(b.param.data() + i, b.m.data() + i, b.v.data() + i, grad.data() + i, piece, s);
    i += piece;
  }
  EXPECT_EQ(a.param, b.param);
}

TEST(AdamW, FollowsLibtorch) {
  const int64_t n = 333;
  torch::Tensor param = torch::tensor(random_floats(n, 1)).requires_grad_();
  State ours{random_floats(n, 1), std::vector<float>(n), std::vector<float>(n)};
  torch::optim::AdamW peer(
      {param},
      torch::optim::AdamWOptions(1e-2).betas(std::make_tuple(0.9, 0.95)).weight_decay(0.05));
  for (int64_t step = 1; step <= 5; ++step) {
    const auto grad = random_floats(n, 20 + unsigned(step));
    param.mutable_grad() = torch::tensor(grad) * 0.5;
    peer.step();
    adamw_update(ours.param.data(), ours.m.data(), ours.v.data(), grad.data(), n,
                 AdamWStep{1e-2, 0.9, 0.95, 1e-8, 0.05, 0.5, step});
  }
  EXPECT_LE((param.detach() - torch::tensor(ours.param)).abs().max().item<float>(), 1e-6f);
}

TEST(AdamW, SaysWhenAParameterIsNotFinite) {
  for (const size_t bad : {0u, 17u, 40u}) {
    State s = start(41);
    auto grad = random_floats(41, 4);
    grad[bad] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_FALSE(adamw_update(s.param.data(), s.m.data(), s.v.data(), grad.data(), 41,
                              AdamWStep{1e-3, 0.9, 0.999, 1e-8, 0, 1, 1}));
  }
}

TEST(SumOfSquares, HasOneValueOnEveryPath) {
  for (const size_t n : {0u, 1u, 15u, 16u, 1000u, 16384u}) {
    const auto x = random_floats(n, unsigned(n), 100);
    const double vectors = sum_of_squares(x.data(), n);
    use_portable_kernels(true);
    const double plain = sum_of_squares(x.data(), n);
    use_portable_kernels(false);
    EXPECT_EQ(vectors, plain);
    double reference = 0;
    for (const float value : x) reference += double(value) * value;
    EXPECT_NEAR(vectors, reference, 1e-12 * reference);
  }
}

TEST(SumOfSquares, ShowsWhatIsNotFinite) {
  for (const float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    for (const size_t at : {0u, 20u, 32u}) {
      std::vector<float> x(33, 1.0f);
      EXPECT_TRUE(all_finite(x.data(), x.size()));
      x[at] = bad;
      EXPECT_FALSE(std::isfinite(sum_of_squares(x.data(), x.size())));
      EXPECT_FALSE(all_finite(x.data(), x.size()));
    }
  }
  const std::vector<float> largest(64, std::numeric_limits<float>::max());
  EXPECT_TRUE(std::isfinite(sum_of_squares(largest.data(), largest.size())));
}

TEST(Add, MayWriteOverAnInput) {
  auto a = random_floats(100, 1);
  const auto b = random_floats(100, 2), before = a;
  add(a.data(), a.data(), b.data(), a.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i], before[i] + b[i]);
}

}  // namespace
}  // namespace craton::tensor
