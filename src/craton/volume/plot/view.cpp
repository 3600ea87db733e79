#include "craton/volume/plot/view.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "craton/base/error.h"

namespace craton::volume::plot {
namespace {

constexpr float kMissing = std::numeric_limits<float>::quiet_NaN();
constexpr int64_t kMostSamples = int64_t{1} << 29;  // of a picture's data: 2 GiB

AxisLabels labels_of(const Axis& axis) {
  const std::string unit = axis.unit.empty() ? "" : " (" + axis.unit + ")";
  const auto& c = axis.coordinates;
  if (c.size() < 2) return {axis.name + unit, c.empty() ? 0 : c[0], 1};
  const double step = (c.back() - c.front()) / static_cast<double>(c.size() - 1);
  for (size_t n = 0; n < c.size(); ++n) {
    // Numbers along an axis with gaps would be wrong: count traces instead.
    if (std::abs(c[n] - (c[0] + step * static_cast<double>(n))) > 0.01 * std::abs(step) + 1e-9) {
      return {axis.name + " (counted)", 0, 1};
    }
  }
  return {axis.name + unit, c[0], step};
}

// What a reader calls the volume: the last part of its address; MDIO's own names are those of
// templates.
std::string title_of(const VolumeInfo& info) {
  std::string_view uri = info.uri;
  while (!uri.empty() && uri.back() == '/') uri.remove_suffix(1);
  uri = uri.substr(uri.rfind('/') + 1);
  return uri.empty() ? info.name : std::string(uri);
}

bool is_prestack(const Axis& axis) {
  return axis.name.find("offset") != std::string::npos ||
         axis.name.find("angle") != std::string::npos;
}

std::string axis_names(const VolumeInfo& info) {
  std::string names;
  for (const Axis& axis : info.axes) names += (names.empty() ? "" : ", ") + axis.name;
  return names;
}

// Index of the coordinate nearest to `value`; Error when it lies more than a step outside or
// between lines.
int64_t index_of(const Axis& axis, double value, bool samples) {
  const auto& c = axis.coordinates;
  size_t best = 0;
  for (size_t n = 1; n < c.size(); ++n) {
    if (std::abs(c[n] - value) < std::abs(c[best] - value)) best = n;
  }
  const double step = c.size() > 1 ? std::abs(c[1] - c[0]) : 1;
  const double tolerance = samples ? 0.51 * step : 1e-6 * std::max(1.0, std::abs(value));
  if (!(std::abs(c[best] - value) <= tolerance)) {
    const auto [low, high] = std::minmax_element(c.begin(), c.end());
    fail(ErrorCode::kOutOfRange, "no {} {}; the volume has {} to {}, the nearest is {}", axis.name,
         value, *low, *high, c[best]);
  }
  return static_cast<int64_t>(best);
}

// Number of the axis with this name; "time" and "depth" also mean the sample axis of the other
// kind.
size_t axis_of(const VolumeInfo& info, const std::string& name) {
  for (size_t d = 0; d < info.axes.size(); ++d) {
    if (info.axes[d].name == name) return d;
  }
  fail(ErrorCode::kInvalidArgument, "the volume {} has no axis '{}'; its axes are {}", info.name,
       name, axis_names(info));
}

// Fixes axes until two are left; -1 is free.
std::vector<int64_t> fix_axes(const VolumeInfo& info, const std::vector<Place>& places) {
  std::vector<int64_t> fixed(info.axes.size(), -1);
  for (const auto& [name, value] : places) {
    const size_t d = axis_of(info, name);
    fixed[d] = index_of(info.axes[d], value, d + 1 == info.axes.size());
  }
  auto free = std::count(fixed.begin(), fixed.end(), -1);
  const auto fix_middle = [&](bool prestack_only) {
    for (size_t d = 0; d + 1 < fixed.size() && free > 2; ++d) {
      if (fixed[d] >= 0 || (prestack_only && !is_prestack(info.axes[d]))) continue;
      fixed[d] = info.axes[d].size() / 2;
      --free;
    }
  };
  // Nothing said about a prestack volume: a gather. Otherwise a section of one offset.
  fix_middle(!places.empty());
  fix_middle(false);
  if (free != 2) {
    fail(ErrorCode::kInvalidArgument, "a picture needs two free axes of {}; {} would be left",
         axis_names(info), free);
  }
  return fixed;
}

std::string coordinate_text(const Axis& axis, int64_t index) {
  const std::string unit = axis.unit.empty() ? "" : " " + axis.unit;
  return fmt::format("{} {}{}", axis.name, axis.coordinates[static_cast<size_t>(index)], unit);
}

// A map of the first two lateral axes, with the traces behind each point counted by `gather`.
struct MapShape {
  int64_t rows, columns, gather;
};

MapShape map_shape(const VolumeInfo& info) {
  const size_t lateral = info.axes.size() - 1;
  MapShape m{1, info.axes[0].size(), 1};
  if (lateral >= 2) m = {info.axes[0].size(), info.axes[1].size(), 1};
  for (size_t d = 2; d < lateral; ++d) m.gather *= info.axes[d].size();
  return m;
}

Section empty_map(const VolumeInfo& info, const std::string& what) {
  const MapShape m = map_shape(info);
  Section s;
  s.rows = m.rows;
  s.columns = m.columns;
  s.values.assign(static_cast<size_t>(m.rows * m.columns), 0);
  s.title = title_of(info) + ", " + what;
  s.down = 0;
  s.across = info.axes.size() > 2 ? 1 : 0;
  s.across_labels = labels_of(info.axes[s.across]);
  if (info.axes.size() > 2) s.down_labels = labels_of(info.axes[0]);
  return s;
}

}  // namespace

std::string volume_title(const Volume& volume) { return title_of(volume.info()); }

Section read_section(const Volume& volume, const std::vector<Place>& places) {
  const VolumeInfo& info = volume.info();
  const std::vector<int64_t> fixed = fix_axes(info, places);
  const size_t rank = fixed.size();
  std::vector<int64_t> origin(rank), shape(rank, 1), free;
  Section s;
  s.title = title_of(info);
  for (size_t d = 0; d < rank; ++d) {
    if (fixed[d] >= 0) {
      origin[d] = fixed[d];
      s.title += ", " + coordinate_text(info.axes[d], fixed[d]);
    } else {
      shape[d] = info.axes[d].size();
      free.push_back(static_cast<int64_t>(d));
    }
  }
  const auto first = static_cast<size_t>(free[0]), second = static_cast<size_t>(free[1]);
  const int64_t count = shape[first], depth = shape[second];
  if (count * depth > kMostSamples) {
    fail(ErrorCode::kResourceExhausted, "a picture of {} x {} samples is too large", count, depth);
  }
  std::vector<float> block(static_cast<size_t>(count * depth));
  volume.read(origin, shape, block);
  const bool vertical = second + 1 == rank;
  // Traces of the block, to mark dead ones.
  const auto live = [&](int64_t a, int64_t b) {
    int64_t trace = 0;
    for (size_t d = 0; d + 1 < rank; ++d) {
      trace = trace * info.axes[d].size() + (d == first ? a : d == second ? b : fixed[d]);
    }
    return volume.live()[static_cast<size_t>(trace)] != 0;
  };
  s.rows = vertical ? depth : count;
  s.columns = vertical ? count : depth;
  s.down = vertical ? second : first;
  s.across = vertical ? first : second;
  s.down_labels = labels_of(info.axes[s.down]);
  s.across_labels = labels_of(info.axes[s.across]);
  s.values.resize(block.size());
  for (int64_t a = 0; a < count; ++a) {
    for (int64_t b = 0; b < depth; ++b) {
      const int64_t to = vertical ? b * count + a : a * depth + b;
      s.values[static_cast<size_t>(to)] =
          live(a, b) ? block[static_cast<size_t>(a * depth + b)] : kMissing;
    }
  }
  return s;
}

Section live_map(const Volume& volume) {
  const Section fold = fold_map(volume);
  Section s = empty_map(volume.info(), "live traces");
  s.counts = true;
  for (size_t n = 0; n < s.values.size(); ++n) s.values[n] = fold.values[n] > 0 ? 1 : 0;
  return s;
}

Section fold_map(const Volume& volume) {
  const MapShape m = map_shape(volume.info());
  Section s = empty_map(volume.info(), "fold");
  s.counts = true;
  const std::vector<uint8_t>& live = volume.live();
  for (size_t n = 0; n < live.size(); ++n) {
    s.values[n / static_cast<size_t>(m.gather)] += live[n] != 0 ? 1.0f : 0.0f;
  }
  return s;
}

WindowBoxes window_boxes(const std::vector<std::pair<int64_t, int64_t>>& windows, int64_t rows,
                         int64_t columns) {
  static constexpr std::array<Color, 6> kColors = {
      {{0, 110, 60}, {120, 40, 150}, {200, 90, 0}, {0, 90, 160}, {150, 20, 60}, {60, 60, 60}}};
  auto sorted = windows;  // the largest first, so that small ones lie on top
  std::sort(sorted.begin(), sorted.end(),
            [](auto a, auto b) { return a.first * a.second > b.first * b.second; });
  WindowBoxes out;
  for (const auto& [traces, samples] : sorted) {
    const std::string label = fmt::format("{}x{}", traces, samples);
    if (traces > columns || samples > rows) {
      out.skipped.push_back(label);
      continue;
    }
    const auto column = static_cast<double>(columns - traces) / 2,
               row = static_cast<double>(rows - samples) / 2;
    out.boxes.push_back({column, row, static_cast<double>(traces), static_cast<double>(samples),
                         label, kColors[out.boxes.size() % kColors.size()]});
  }
  return out;
}

std::vector<std::pair<int64_t, int64_t>> parse_windows(std::string_view text) {
  std::vector<std::pair<int64_t, int64_t>> windows;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    int64_t traces = 0, samples = 0;
    const char* end = part.data() + part.size();
    const auto first = std::from_chars(part.data(), end, traces);
    if (first.ec == std::errc() && first.ptr != end && *first.ptr == 'x') {
      const auto second = std::from_chars(first.ptr + 1, end, samples);
      if (second.ec == std::errc() && second.ptr == end && traces > 0 && samples > 0 &&
          traces < 1 << 24 && samples < 1 << 24) {
        windows.emplace_back(traces, samples);
        continue;
      }
    }
    fail(ErrorCode::kInvalidArgument, "'{}' is no window; expected TRACESxSAMPLES, e.g. 256x256",
         part);
  }
  return windows;
}

Image draw_section(const Section& section, const ColorScale& scale, std::vector<Box> boxes) {
  ChartStyle style;
  style.title = section.title;
  style.across = section.across_labels;
  style.down = section.down_labels;
  style.boxes = std::move(boxes);
  style.counts = section.counts;
  if (section.rows == 1) style.height = 48;
  return draw_chart(section.raster(), scale, style);
}

}  // namespace craton::volume::plot
