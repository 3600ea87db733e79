#pragma once

#include <array>
#include <cstdint>

namespace craton::volume::plot {

inline constexpr int kGlyphWidth = 5, kGlyphHeight = 7;

/// Columns of one printable ASCII character from the left; bit 0 is the top row, bit 7 lies below the
/// line.
const std::array<uint8_t, kGlyphWidth>& glyph(char character);

}  // namespace craton::volume::plot
