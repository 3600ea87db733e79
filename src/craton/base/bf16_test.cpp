#include "craton/base/bf16.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace craton {
namespace {

uint16_t rounded(float value) {
  uint16_t out = 0;
  round_to_bf16({&value, 1}, &out);
  return out;
}

float expanded(uint16_t bits) {
  float out = 0;
  expand_bf16({&bits, 1}, &out);
  return out;
}

TEST(Bf16, EachOfItsNumbersComesBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = expanded(static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(expanded(rounded(value)))) << bits;
    } else {
      EXPECT_EQ(rounded(value), bits);
    }
  }
}

TEST(Bf16, RoundsToTheNearerNeighbourAndTiesToEven) {
  for (uint32_t bits = 0; bits < 0x7F7F; ++bits) {  // every gap between two finite numbers
    const auto low = static_cast<uint16_t>(bits), high = static_cast<uint16_t>(bits + 1);
    const float middle = std::bit_cast<float>(bits << 16 | 0x8000);
    const auto even = bits % 2 == 0 ? low : high;
    ASSERT_EQ(rounded(middle), even);
    ASSERT_EQ(rounded(std::nextafter(middle, 0.0f)), low);
    ASSERT_EQ(rounded(std::nextafter(middle, std::numeric_limits<float>::infinity())), high);
    ASSERT_EQ(rounded(-middle), even | 0x8000);
  }
}

TEST(Bf16, WhatIsTooLargeIsInfinityAndNanStaysNan) {
  EXPECT_EQ(rounded(std::numeric_limits<float>::max()), 0x7F80);
  EXPECT_EQ(rounded(-std::numeric_limits<float>::infinity()), 0xFF80);
  // A NaN whose fraction lies in the lower half only.
  EXPECT_TRUE(std::isnan(expanded(rounded(std::bit_cast<float>(0x7F800001u)))));
  EXPECT_TRUE(std::isnan(expanded(rounded(std::bit_cast<float>(0xFFFFFFFFu)))));
}

TEST(Bf16, LongRunsAreRoundedOneByOne) {
  std::vector<float> values(1003);
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i)) * 1e3f;
  std::vector<uint16_t> bits(values.size());
  round_to_bf16(values, bits.data());
  std::vector<float> back(values.size());
  expand_bf16(bits, back.data());
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(bits[i], rounded(values[i]));
    EXPECT_LE(std::abs(back[i] - values[i]), std::abs(values[i]) / 256);
  }
}

}  // namespace
}  // namespace craton
