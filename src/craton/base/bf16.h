#pragma once

#include <cstdint>
#include <span>

namespace craton {

/// bfloat16: the upper half of a float (1 sign, 8 exponent, 7 fraction bits), as its bits.

/// Rounds to nearest, ties to even, as processors and torch do; overflow gives infinity, NaN stays
/// NaN. `to` has from.size() elements.
void round_to_bf16(std::span<const float> from, uint16_t* to);
/// Exact. `to` has from.size() elements.
void expand_bf16(std::span<const uint16_t> from, float* to);

}  // namespace craton
