#pragma once

#include <span>
#include <string_view>

#include "craton/volume/plot/raster.h"

namespace craton::volume::plot {

enum class ColorMap { kSeismic, kGrey, kViridis };

/// "seismic" (blue, white, red), "grey" or "viridis"; Error lists the names.
ColorMap color_map(std::string_view name);

/// Values low..high to colours; NaN has its own colour.
struct ColorScale {
  ColorMap map = ColorMap::kSeismic;
  float low = -1, high = 1;
  Color missing{205, 205, 205};

  Color operator()(float value) const;

  /// -limit..limit, where `limit` is the given percentile (0..100) of the absolute values; for
  /// amplitudes.
  static ColorScale symmetric(std::span<const float> values, double percentile, ColorMap map);
  /// From percentile 100 - p to percentile p; for maps.
  static ColorScale ranged(std::span<const float> values, double percentile, ColorMap map);
};

}  // namespace craton::volume::plot
