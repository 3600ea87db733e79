#include "craton/base/bf16.h"

#include <bit>

#include "craton/base/wide_loops.h"

namespace craton {

CRATON_WIDE void round_to_bf16(std::span<const float> from, uint16_t* to) {
  for (size_t i = 0; i < from.size(); ++i) {
    const auto bits = std::bit_cast<uint32_t>(from[i]);
    const uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
    const bool is_nan = (bits & 0x7FFFFFFF) > 0x7F800000;
    to[i] = static_cast<uint16_t>(is_nan ? (bits >> 16 | 0x40) : rounded);
  }
}

CRATON_WIDE void expand_bf16(std::span<const uint16_t> from, float* to) {
  for (size_t i = 0; i < from.size(); ++i) to[i] = std::bit_cast<float>(uint32_t{from[i]} << 16);
}

}  // namespace craton
