#pragma once

#include <cstddef>
#include <cstdint>

#include "craton/volume/segy/bytes.h"

namespace craton::volume::segy {

/// Does `float_to_ibm(ibm_to_float(word))` certainly give the word back? True for a plain zero and
/// for normalised words whose values are normal floats; false for the rest, of which a few (tiny
/// ones) may come back all the same.
inline bool comes_back(uint32_t word) {
  const uint32_t magnitude = word & 0x7fffffffu;
  return magnitude == 0 ||
         ((word & 0x00f00000u) != 0 && magnitude >= 0x22000000u && magnitude < 0x61100000u);
}

/// comes_back for all `count` words at `raw`; fast, as nearly all files say yes.
bool all_come_back(ByteOrder order, const std::byte* raw, size_t count);

}  // namespace craton::volume::segy
