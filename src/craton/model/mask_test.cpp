#include "craton/model/mask.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace craton::model {
namespace {

std::vector<int64_t> row(const torch::Tensor& orders, int64_t r) {
  const int64_t* p = orders.data_ptr<int64_t>() + r * orders.size(1);
  return {p, p + orders.size(1)};
}

TEST(Mask, CountsAreRoundedAndNeverAllOrNothing) {
  EXPECT_EQ(masked_count(256, 0.75), 192);
  EXPECT_EQ(masked_count(10, 0.75), 8);
  EXPECT_EQ(masked_count(10, 0.74), 7);
  EXPECT_EQ(masked_count(8, 0.01), 1);
  EXPECT_EQ(masked_count(8, 0.99), 7);
  EXPECT_EQ(masked_count(2, 0.5), 1);
}

TEST(Mask, VisibleStandFirstAndBothPartsAscend) {
  const std::vector<uint32_t> words{50, 10, 40, 20, 30};
  EXPECT_EQ(order_by_words(words, 2), (std::vector<int64_t>{0, 2, 4, 1, 3}));
  EXPECT_EQ(order_by_words(words, 0), (std::vector<int64_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(order_by_words(words, 5), (std::vector<int64_t>{0, 1, 2, 3, 4}));
}

TEST(Mask, EqualWordsRankByToken) {
  EXPECT_EQ(order_by_words(std::vector<uint32_t>(6, 7), 3),
            (std::vector<int64_t>{3, 4, 5, 0, 1, 2}));
  const std::vector<uint32_t> words{9, 3, 3, 3, 0};
  EXPECT_EQ(order_by_words(words, 3), (std::vector<int64_t>{0, 3, 1, 2, 4}));
  EXPECT_EQ(order_by_words(std::vector<uint32_t>(3, ~0u), 1), (std::vector<int64_t>{1, 2, 0}));
}

TEST(Mask, EachRowIsAPermutation) {
  const std::vector<int64_t> samples{0, 1, 2, 1LL << 40};
  for (const int64_t tokens : {2, 7, 64, 255, 1000}) {
    const int64_t masked = masked_count(tokens, 0.75);
    const torch::Tensor orders = mask_orders(1, samples, tokens, masked);
    for (size_t s = 0; s < samples.size(); ++s) {
      auto order = row(orders, static_cast<int64_t>(s));
      EXPECT_TRUE(std::is_sorted(order.begin(), order.end() - masked));
      EXPECT_TRUE(std::is_sorted(order.end() - masked, order.end()));
      std::sort(order.begin(), order.end());
      std::vector<int64_t> all(tokens);
      std::iota(all.begin(), all.end(), 0);
      EXPECT_EQ(order, all);
    }
  }
}

TEST(Mask, DependsOnSeedAndSampleAndOnNothingElse) {
  const std::vector<int64_t> batch{11, 12, 13}, other{13, 99};
  const torch::Tensor a = mask_orders(5, batch, 200, 150), b = mask_orders(5, other, 200, 150);
  EXPECT_EQ(row(a, 2), row(b, 0));
  EXPECT_NE(row(a, 0), row(a, 1));
  EXPECT_NE(row(a, 0), row(mask_orders(6, batch, 200, 150), 0));
  // More masked tokens keep those of fewer: the rank of a token does not depend on the ratio.
  const auto few = row(mask_orders(5, batch, 200, 50), 0), many = row(a, 0);
  const std::set<int64_t> hidden(many.end() - 150, many.end());
  for (auto t = few.end() - 50; t != few.end(); ++t) EXPECT_TRUE(hidden.contains(*t));
}

TEST(Mask, HidesEachTokenEquallyOften) {
  const int64_t tokens = 16, masked = 12, samples = 4000;
  std::vector<int64_t> numbers(samples);
  std::iota(numbers.begin(), numbers.end(), 0);
  const torch::Tensor hidden = mask_orders(3, numbers, tokens, masked).slice(1, tokens - masked);
  const torch::Tensor counts = torch::bincount(hidden.reshape(-1), {}, tokens);
  // Binomial with p = 0.75: deviation 27 of 3000; 6 deviations.
  EXPECT_NEAR(counts.min().item<int64_t>(), 3000, 165);
  EXPECT_NEAR(counts.max().item<int64_t>(), 3000, 165);
}

}  // namespace
}  // namespace craton::model
