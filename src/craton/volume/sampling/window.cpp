#include "craton/volume/sampling/window.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "craton/base/check.h"
#include "craton/base/philox.h"
#include "craton/volume/nearly_normal.h"

namespace craton::volume {
namespace {

// Windows and volumes as 3D, with a leading axis of 1 for 2D volumes.
using Three = std::array<int64_t, 3>;

Three three(std::span<const int64_t> v, int64_t leading) {
  return v.size() == 3 ? Three{v[0], v[1], v[2]} : Three{leading, v[0], v[1]};
}

// Copies the part of the window that lies in one chunk.
void copy_part(std::span<const float> chunk, const Three& chunk_shape, const Three& chunk_origin,
               const Three& origin, const Three& shape, std::span<float> out) {
  Three low, high;
  for (size_t d = 0; d < 3; ++d) {
    low[d] = std::max(origin[d], chunk_origin[d]);
    high[d] = std::min(origin[d] + shape[d], chunk_origin[d] + chunk_shape[d]);
  }
  const auto bytes = static_cast<size_t>(high[2] - low[2]) * sizeof(float);
  for (int64_t i = low[0]; i < high[0]; ++i) {
    for (int64_t x = low[1]; x < high[1]; ++x) {
      const int64_t from =
          ((i - chunk_origin[0]) * chunk_shape[1] + x - chunk_origin[1]) * chunk_shape[2] + low[2] -
          chunk_origin[2];
      const int64_t to =
          ((i - origin[0]) * shape[1] + x - origin[1]) * shape[2] + low[2] - origin[2];
      std::memcpy(out.data() + to, chunk.data() + from, bytes);
    }
  }
}

void copy_window(const WindowSpec& spec, const Volume& volume, ChunkCache& cache,
                 const store::ReadLimits& limits, std::span<float> out) {
  const VolumeInfo& info = volume.info();
  const Three origin = three(spec.origin, 0), shape = three(spec.shape, 1);
  const Three chunk_shape = three(info.chunk_shape, 1);
  const auto chunks = chunks_of(spec, info);
  if (chunks.size() > 1) cache.load(volume, spec.volume, chunks, limits);
  for (const auto& chunk : chunks) {
    const auto pin = cache.get(volume, spec.volume, chunk);
    Three chunk_origin = three(chunk, 0);
    for (size_t d = 0; d < 3; ++d) chunk_origin[d] *= chunk_shape[d];
    copy_part(pin.samples(), chunk_shape, chunk_origin, origin, shape, out);
  }
}

// One trace: normalise, scale, add noise.
void finish_trace(std::span<float> trace, const Normalisation& n, const WindowSpec& spec,
                  const Philox& noise, uint64_t first) {
  const float limit = n.clip > 0 ? n.clip : std::numeric_limits<float>::max();
  const float inverse = 1 / n.deviation;
  for (float& x : trace) {
    const float y = std::min(std::max((x - n.mean) * inverse, -limit), limit);
    // Also what is not finite becomes 0: a comparison with NaN is false.
    x = std::abs(x) <= std::numeric_limits<float>::max() ? y * spec.gain : 0.0f;
  }
  if (spec.noise == 0) return;
  for (size_t k = 0; k < trace.size(); ++k) {
    const uint64_t element = first + k;
    trace[k] += spec.noise * nearly_normal(noise.block(element / 2))[element % 2];
  }
}

// Reverses axes of a window [rows][traces][samples] by exchanging traces.
void flip(std::span<float> out, int64_t rows, int64_t traces, int64_t samples, bool flip_rows,
          bool flip_traces) {
  const auto trace = [&](int64_t r, int64_t t) { return out.begin() + (r * traces + t) * samples; };
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t t = 0; t < traces; ++t) {
      const int64_t to_r = flip_rows ? rows - 1 - r : r, to_t = flip_traces ? traces - 1 - t : t;
      if (std::pair(to_r, to_t) > std::pair(r, t)) {
        std::swap_ranges(trace(r, t), trace(r, t) + samples, trace(to_r, to_t));
      }
    }
  }
}

}  // namespace

std::vector<std::vector<int64_t>> chunks_of(const WindowSpec& spec, const VolumeInfo& info) {
  const size_t rank = spec.origin.size();
  std::vector<int64_t> first(rank), last(rank);
  for (size_t d = 0; d < rank; ++d) {
    first[d] = spec.origin[d] / info.chunk_shape[d];
    last[d] = (spec.origin[d] + spec.shape[d] - 1) / info.chunk_shape[d];
  }
  std::vector<std::vector<int64_t>> out;
  for (std::vector<int64_t> at = first;;) {
    out.push_back(at);
    size_t d = rank;
    while (d > 0 && at[d - 1] == last[d - 1]) {
      --d;
      at[d] = first[d];
    }
    if (d == 0) return out;
    ++at[d - 1];
  }
}

void assemble_window(const WindowSpec& spec, const Volume& volume,
                     const Normalisation& normalisation, ChunkCache& cache, std::span<float> out,
                     const store::ReadLimits& limits) {
  const Three origin = three(spec.origin, 0), shape = three(spec.shape, 1);
  CRATON_CHECK(out.size() == static_cast<size_t>(shape[0] * shape[1] * shape[2]));
  copy_window(spec, volume, cache, limits, out);
  const std::vector<uint8_t>& live = volume.live();
  const int64_t columns = volume.info().axes[spec.origin.size() - 2].size();
  const Philox noise(spec.noise_seed, RandomPurpose::kAugmentNoise,
                     static_cast<uint64_t>(spec.sample_number));
  for (int64_t i = 0; i < shape[0]; ++i) {
    for (int64_t x = 0; x < shape[1]; ++x) {
      const auto first = static_cast<size_t>((i * shape[1] + x) * shape[2]);
      const std::span<float> trace = out.subspan(first, static_cast<size_t>(shape[2]));
      if (live[static_cast<size_t>((origin[0] + i) * columns + origin[1] + x)] != 0) {
        finish_trace(trace, normalisation, spec, noise, first);
      } else {
        std::fill(trace.begin(), trace.end(), 0.0f);
      }
    }
  }
  if (spec.flips == 0) return;
  // Window axes without the samples are rows and traces; a section has one row.
  const bool cube = spec.axes.size() == 3;
  const int64_t rows = cube ? shape[0] : 1, traces = cube ? shape[1] : shape[0] * shape[1];
  flip(out, rows, traces, shape[2], cube && (spec.flips & 1) != 0,
       (spec.flips >> (cube ? 1 : 0) & 1) != 0);
}

}  // namespace craton::volume
