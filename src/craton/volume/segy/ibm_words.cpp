#include "craton/volume/segy/ibm_words.h"

#include "craton/base/wide_loops.h"

namespace craton::volume::segy {

namespace {

/// Without branches: a bit pattern that is 0 for a word that comes back.
inline uint32_t oddness(uint32_t word) {
  const uint32_t magnitude = word & 0x7fffffffu;
  const uint32_t outside = magnitude - 0x22000000u >= 0x3f100000u ? 1u : 0u;
  const uint32_t no_digit = (word & 0x00f00000u) == 0 ? 1u : 0u;
  return (outside | no_digit) & (magnitude != 0 ? 1u : 0u);
}

CRATON_WIDE uint32_t any_odd_big(const std::byte* raw, size_t count) {
  uint32_t odd = 0;
  for (size_t i = 0; i < count; ++i) {
    uint32_t word;
    std::memcpy(&word, raw + 4 * i, 4);
    odd |= oddness(__builtin_bswap32(word));
  }
  return odd;
}

CRATON_WIDE uint32_t any_odd_little(const std::byte* raw, size_t count) {
  uint32_t odd = 0;
  for (size_t i = 0; i < count; ++i) {
    uint32_t word;
    std::memcpy(&word, raw + 4 * i, 4);
    odd |= oddness(word);
  }
  return odd;
}

}  // namespace

bool all_come_back(ByteOrder order, const std::byte* raw, size_t count) {
  return (order == ByteOrder::kBig ? any_odd_big(raw, count) : any_odd_little(raw, count)) == 0;
}

}  // namespace craton::volume::segy
