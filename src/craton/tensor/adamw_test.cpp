#include "craton/tensor/adamw.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "craton/base/philox.h"
#include "craton/tensor/torch.h"

namespace craton::tensor {
namespace {

std::vector<float> random_values(size_t n, uint64_t stream) {
  const Philox random(1, RandomPurpose::kTest, stream);
  std::vector<float> out(n);
  for (size_t i = 0; i < n; ++i) out[i] = static_cast<float>(random.normal(i));
  return out;
}

TEST(AdamW, FollowsLibtorch) {
  const size_t n = 1003;
  auto p = random_values(n, 1);
  std::vector<float> m(n, 0), v(n, 0);
  torch::Tensor reference = torch::tensor(p).requires_grad_();
  torch::optim::AdamW optimizer(
      {reference}, torch::optim::AdamWOptions(1e-2).betas({0.9, 0.95}).eps(1e-8).weight_decay(0.1));
  AdamWStep numbers{1e-2, 0.9, 0.95, 1e-8, 0.1, 1, 0};
  for (int t = 1; t <= 5; ++t) {
    const auto g = random_values(n, 10 + static_cast<uint64_t>(t));
    reference.mutable_grad() = torch::tensor(g);
    optimizer.step();
    numbers.step = t;
    adamw_update(p.data(), m.data(), v.data(), g.data(), n, numbers);
  }
  EXPECT_LT((torch::tensor(p) - reference.detach()).abs().max().item<float>(), 1e-6f);
}

TEST(AdamW, BitsDoNotDependOnWhereARangeIsCut) {
  const size_t n = 517;
  const auto g = random_values(n, 2);
  auto whole = random_values(n, 3), cut = whole;
  std::vector<float> m1(n, 0), v1(n, 0), m2(n, 0), v2(n, 0);
  const AdamWStep numbers{3e-3, 0.9, 0.95, 1e-8, 0.05, 0.125, 7};
  adamw_update(whole.data(), m1.data(), v1.data(), g.data(), n, numbers);
  size_t at = 0;
  for (size_t length : {1, 2, 3, 100, 8, 403}) {
    adamw_update(cut.data() + at, m2.data() + at, v2.data() + at, g.data() + at, length, numbers);
    at += length;
  }
  ASSERT_EQ(at, n);
  EXPECT_EQ(whole, cut);
  EXPECT_EQ(v1, v2);
}

TEST(SumOfSquares, IsExactOrderedAndShowsWhatIsNotFinite) {
  auto values = random_values(1000, 4);
  long double exact = 0;
  for (float x : values) exact += static_cast<long double>(x) * x;
  EXPECT_NEAR(sum_of_squares(values.data(), values.size()), static_cast<double>(exact), 1e-10);
  values[999] = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(std::isinf(sum_of_squares(values.data(), values.size())));
  values[3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(sum_of_squares(values.data(), values.size())));
}

}  // namespace
}  // namespace craton::tensor
