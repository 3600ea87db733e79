// Pictures that need all or many traces: the amplitude map and the spectrum.
#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>

#include "craton/runtime/thread_pool.h"
#include "craton/volume/plot/view.h"

namespace craton::volume::plot {
namespace {

constexpr int64_t kSpectrumTraces = 256, kSpectrumSamples = 1024;

// Adds the squares of one chunk to the sums of its map points.
void add_chunk(const VolumeInfo& info, std::span<const int64_t> chunk,
               std::span<const float> samples, int64_t columns, std::span<double> sums) {
  const size_t rank = info.axes.size(), lateral = rank - 1;
  const int64_t depth = info.chunk_shape[lateral];
  int64_t traces = 1;
  for (size_t d = 0; d < lateral; ++d) traces *= info.chunk_shape[d];
  for (int64_t n = 0; n < traces; ++n) {
    std::vector<int64_t> at(lateral);
    int64_t rest = n;
    bool inside = true;
    for (size_t d = lateral; d-- > 0; rest /= info.chunk_shape[d]) {
      at[d] = chunk[d] * info.chunk_shape[d] + rest % info.chunk_shape[d];
      inside = inside && at[d] < info.axes[d].size();
    }
    if (!inside) continue;
    const int64_t point = lateral >= 2 ? at[0] * columns + at[1] : at[0];
    double sum = 0;
    for (int64_t t = 0; t < depth; ++t) {
      const float x = samples[static_cast<size_t>(n * depth + t)];
      if (std::isfinite(x)) sum += static_cast<double>(x) * x;
    }
    sums[static_cast<size_t>(point)] += sum;
  }
}

// Live traces, at most kSpectrumTraces of them, evenly spread.
std::vector<int64_t> spread_traces(const std::vector<uint8_t>& live) {
  std::vector<int64_t> all;
  for (size_t n = 0; n < live.size(); ++n) {
    if (live[n] != 0) all.push_back(static_cast<int64_t>(n));
  }
  std::vector<int64_t> some;
  const auto count = std::min<int64_t>(kSpectrumTraces, static_cast<int64_t>(all.size()));
  for (int64_t k = 0; k < count; ++k) {
    some.push_back(
        all[static_cast<size_t>((2 * k + 1) * static_cast<int64_t>(all.size()) / (2 * count))]);
  }
  return some;
}

}  // namespace

Section amplitude_map(const Volume& volume, size_t threads) {
  const VolumeInfo& info = volume.info();
  Section s = fold_map(volume);
  s.title = volume_title(volume) + ", rms amplitude";
  s.counts = false;
  std::vector<int64_t> grid;
  int64_t chunks = 1, elements = 1;
  for (size_t d = 0; d < info.axes.size(); ++d) {
    grid.push_back((info.axes[d].size() + info.chunk_shape[d] - 1) / info.chunk_shape[d]);
    chunks *= grid[d];
    elements *= info.chunk_shape[d];
  }
  std::vector<double> sums(s.values.size(), 0);
  // One task per column of chunks: no two tasks share a map point unless there are gathers, whose
  // axes come after the map's.
  int64_t per_task = 1;
  for (size_t d = std::min<size_t>(2, grid.size() - 1); d < grid.size(); ++d) per_task *= grid[d];
  runtime::parallel_for(static_cast<size_t>(chunks / per_task), threads, [&](size_t task) {
    std::vector<float> samples(static_cast<size_t>(elements));
    std::vector<int64_t> index(grid.size());
    for (int64_t k = 0; k < per_task; ++k) {
      int64_t rest = static_cast<int64_t>(task) * per_task + k;
      for (size_t d = grid.size(); d-- > 0; rest /= grid[d]) index[d] = rest % grid[d];
      volume.read_chunk(index, samples);
      add_chunk(info, index, samples, s.columns, sums);
    }
  });
  const double samples = static_cast<double>(info.axes.back().size());
  for (size_t n = 0; n < sums.size(); ++n) {
    const double traces = s.values[n];
    s.values[n] = traces > 0 ? static_cast<float>(std::sqrt(sums[n] / (traces * samples)))
                             : std::numeric_limits<float>::quiet_NaN();
  }
  return s;
}

Curve spectrum(const Volume& volume) {
  const VolumeInfo& info = volume.info();
  const size_t rank = info.axes.size();
  const Axis& axis = info.axes.back();
  const int64_t n = std::min(axis.size(), kSpectrumSamples), first = (axis.size() - n) / 2,
                bins = n / 2 + 1;
  std::vector<double> cosine(static_cast<size_t>(n)), sine(static_cast<size_t>(n)),
      power(static_cast<size_t>(bins), 0);
  for (int64_t k = 0; k < n; ++k) {
    const double angle =
        2 * 3.14159265358979323846 * static_cast<double>(k) / static_cast<double>(n);
    cosine[static_cast<size_t>(k)] = std::cos(angle);
    sine[static_cast<size_t>(k)] = std::sin(angle);
  }
  std::vector<float> trace(static_cast<size_t>(n));
  std::vector<int64_t> origin(rank), shape(rank, 1);
  shape.back() = n;
  for (const int64_t number : spread_traces(volume.live())) {
    int64_t rest = number;
    for (size_t d = rank - 1; d-- > 0; rest /= info.axes[d].size())
      origin[d] = rest % info.axes[d].size();
    origin.back() = first;
    volume.read(origin, shape, trace);
    for (int64_t f = 0; f < bins; ++f) {
      double re = 0, im = 0;
      for (int64_t k = 0, at = 0; k < n; ++k, at = (at + f) % n) {
        // Tapered, so that the ends of the trace do not spread over all frequencies.
        const double x =
            trace[static_cast<size_t>(k)] * (0.5 - 0.5 * cosine[static_cast<size_t>(k)]);
        re += x * cosine[static_cast<size_t>(at)];
        im += x * sine[static_cast<size_t>(at)];
      }
      power[static_cast<size_t>(f)] += re * re + im * im;
    }
  }
  const double most = std::max(*std::max_element(power.begin(), power.end()), 1e-300);
  double step = axis.size() > 1 ? std::abs(axis.coordinates[1] - axis.coordinates[0]) : 1;
  if (axis.unit == "ms") step /= 1000;
  Curve curve;
  curve.color = {24, 72, 168};
  for (int64_t f = 0; f < bins; ++f) {
    curve.x.push_back(static_cast<double>(f) / (static_cast<double>(n) * step));
    curve.y.push_back(
        std::max(-80.0, 10 * std::log10(power[static_cast<size_t>(f)] / most + 1e-30)));
  }
  return curve;
}

std::string spectrum_axis(const Volume& volume) {
  const std::string& unit = volume.info().axes.back().unit;
  return unit == "ms" || unit == "s" ? "frequency (Hz)"
         : unit.empty()              ? "cycles per sample unit"
                                     : "cycles per " + unit;
}

}  // namespace craton::volume::plot
