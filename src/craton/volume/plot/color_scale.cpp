#include "craton/volume/plot/color_scale.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "craton/base/error.h"

namespace craton::volume::plot {
namespace {

// Anchor colours at equal distances; linear between them.
constexpr std::array<Color, 9> kSeismicAnchors = {{{8, 26, 92},
                                                   {24, 72, 168},
                                                   {76, 134, 208},
                                                   {165, 198, 230},
                                                   {250, 250, 248},
                                                   {244, 186, 160},
                                                   {222, 110, 84},
                                                   {176, 34, 40},
                                                   {96, 6, 22}}};
constexpr std::array<Color, 2> kGreyAnchors = {{{0, 0, 0}, {255, 255, 255}}};
constexpr std::array<Color, 9> kViridisAnchors = {{{68, 1, 84},
                                                   {72, 40, 120},
                                                   {62, 74, 137},
                                                   {49, 104, 142},
                                                   {38, 130, 142},
                                                   {31, 158, 137},
                                                   {53, 183, 121},
                                                   {144, 215, 67},
                                                   {253, 231, 37}}};

Color between(std::span<const Color> anchors, float share) {
  const float position = std::clamp(share, 0.0f, 1.0f) * static_cast<float>(anchors.size() - 1);
  const size_t left = std::min(static_cast<size_t>(position), anchors.size() - 2);
  const float t = position - static_cast<float>(left);
  const auto mix = [t](uint8_t a, uint8_t b) {
    return static_cast<uint8_t>(static_cast<float>(a) +
                                (static_cast<float>(b) - static_cast<float>(a)) * t + 0.5f);
  };
  const Color a = anchors[left], b = anchors[left + 1];
  return {mix(a.r, b.r), mix(a.g, b.g), mix(a.b, b.b)};
}

// The given percentile of `values`, which is reordered.
float percentile_of(std::vector<float>& values, double percentile) {
  if (values.empty()) return 0;
  const double share = std::clamp(percentile / 100, 0.0, 1.0);
  const auto k = static_cast<size_t>(share * static_cast<double>(values.size() - 1) + 0.5);
  std::nth_element(values.begin(), values.begin() + static_cast<int64_t>(k), values.end());
  return values[k];
}

}  // namespace

ColorMap color_map(std::string_view name) {
  if (name == "seismic") return ColorMap::kSeismic;
  if (name == "grey" || name == "gray") return ColorMap::kGrey;
  if (name == "viridis") return ColorMap::kViridis;
  fail(ErrorCode::kInvalidArgument, "no colour scale '{}'; there are seismic, grey and viridis",
       name);
}

Color ColorScale::operator()(float value) const {
  if (!std::isfinite(value)) return missing;
  const float share = high > low ? (value - low) / (high - low) : 0.5f;
  switch (map) {
    case ColorMap::kGrey:
      return between(kGreyAnchors, share);
    case ColorMap::kViridis:
      return between(kViridisAnchors, share);
    case ColorMap::kSeismic:
      break;
  }
  return between(kSeismicAnchors, share);
}

ColorScale ColorScale::symmetric(std::span<const float> values, double percentile, ColorMap map) {
  std::vector<float> sizes;
  for (const float v : values) {
    if (std::isfinite(v) && v != 0) sizes.push_back(std::abs(v));
  }
  float limit = percentile_of(sizes, percentile);
  if (limit == 0) limit = 1;
  return {.map = map, .low = -limit, .high = limit};
}

ColorScale ColorScale::ranged(std::span<const float> values, double percentile, ColorMap map) {
  std::vector<float> finite;
  for (const float v : values) {
    if (std::isfinite(v)) finite.push_back(v);
  }
  const float low = percentile_of(finite, 100 - percentile),
              high = percentile_of(finite, percentile);
  return {.map = map, .low = low, .high = high > low ? high : low + 1};
}

}  // namespace craton::volume::plot
