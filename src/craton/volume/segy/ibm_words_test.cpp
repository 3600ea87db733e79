#include "craton/volume/segy/ibm_words.h"

#include <gtest/gtest.h>

#include <vector>

#include "craton/base/philox.h"
#include "craton/volume/segy/sample_format.h"

namespace craton::volume::segy {
namespace {

bool fast(uint32_t word, ByteOrder order) {
  // Among good words, at each place of a vector register.
  for (size_t at = 0; at < 19; ++at) {
    std::vector<std::byte> raw(4 * 19);
    for (size_t i = 0; i < 19; ++i)
      store<uint32_t>(raw.data() + 4 * i, i == at ? word : 0x41100000u, order);
    if (all_come_back(order, raw.data(), 19) != comes_back(word)) return !comes_back(word);
  }
  return comes_back(word);
}

TEST(IbmWords, WhatIsSaidToComeBackDoes) {
  const Philox random(21, RandomPurpose::kTest);
  std::vector<uint32_t> words = {0,           0x80000000u, 0x22000000u, 0x21ffffffu, 0x60ffffffu,
                                 0x61100000u, 0x41000000u, 0x410fffffu, 0x22100000u, 1};
  for (uint64_t i = 0; i < 50'000; ++i) words.push_back(random.bits(i));
  int64_t yes = 0;
  for (uint32_t word : words) {
    if (comes_back(word)) {
      ++yes;
      ASSERT_EQ(float_to_ibm(ibm_to_float(word)), word) << std::hex << word;
    }
    ASSERT_EQ(fast(word, ByteOrder::kBig), comes_back(word)) << std::hex << word;
    ASSERT_EQ(fast(word, ByteOrder::kLittle), comes_back(word)) << std::hex << word;
  }
  EXPECT_GT(yes, 20'000);
}

}  // namespace
}  // namespace craton::volume::segy
