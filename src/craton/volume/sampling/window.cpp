#include "craton/volume/sampling/window.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "craton/base/check.h"
#include "craton/base/philox.h"
#include "craton/base/wide_loops.h"
#include "craton/volume/nearly_normal.h"

namespace craton::volume {
namespace {

// Windows and volumes as 3D, with a leading axis of 1 for 2D volumes.
using Three = std::array<int64_t, 3>;

Three three(std::span<const int64_t> v, int64_t leading) {
  return v.size() == 3 ? Three{v[0], v[1], v[2]} : Three{leading, v[0], v[1]};
}

// What becomes of a sample, whatever else happens to the window.
struct Scale {
  float mean, inverse, limit, gain;
};

// Normalises, clamps and scales a run of samples while it is copied. What is not finite becomes 0,
// by a mask of bits: a choice between floats, which may trap, keeps the loop from being widened.
CRATON_WIDE void copy_scaled(const float* __restrict from, float* __restrict to, int64_t count,
                             const Scale& scale) {
  constexpr uint32_t kExponent = 0x7f800000;
  const auto [mean, inverse, limit, gain] = scale;
  for (int64_t k = 0; k < count; ++k) {
    const auto bits = std::bit_cast<uint32_t>(from[k]);
    const float y = std::min(std::max((from[k] - mean) * inverse, -limit), limit) * gain;
    const uint32_t finite = (bits & kExponent) == kExponent ? 0u : ~0u;
    to[k] = std::bit_cast<float>(std::bit_cast<uint32_t>(y) & finite);
  }
}

// The part of the window that lies in one chunk; traces without life become 0.
struct Part {
  Three chunk_shape, chunk_origin, origin, shape;
  const uint8_t* live;  // of the volume, rows of `columns`
  int64_t columns;
};

void copy_part(const Part& p, std::span<const float> chunk, const Scale& scale,
               std::span<float> out) {
  Three low, high;
  for (size_t d = 0; d < 3; ++d) {
    low[d] = std::max(p.origin[d], p.chunk_origin[d]);
    high[d] = std::min(p.origin[d] + p.shape[d], p.chunk_origin[d] + p.chunk_shape[d]);
  }
  const int64_t count = high[2] - low[2];
  for (int64_t i = low[0]; i < high[0]; ++i) {
    for (int64_t x = low[1]; x < high[1]; ++x) {
      const int64_t from =
          ((i - p.chunk_origin[0]) * p.chunk_shape[1] + x - p.chunk_origin[1]) * p.chunk_shape[2] +
          low[2] - p.chunk_origin[2];
      const int64_t to =
          ((i - p.origin[0]) * p.shape[1] + x - p.origin[1]) * p.shape[2] + low[2] - p.origin[2];
      if (p.live[i * p.columns + x] != 0) {
        copy_scaled(chunk.data() + from, out.data() + to, count, scale);
      } else {
        std::fill_n(out.data() + to, count, 0.0f);
      }
    }
  }
}

void copy_window(const WindowSpec& spec, const Volume& volume, ChunkCache& cache,
                 const store::ReadLimits& limits, const Scale& scale, std::span<float> out) {
  const VolumeInfo& info = volume.info();
  Part part;
  part.origin = three(spec.origin, 0);
  part.shape = three(spec.shape, 1);
  part.chunk_shape = three(info.chunk_shape, 1);
  part.live = volume.live().data();
  part.columns = info.axes[spec.origin.size() - 2].size();
  const auto chunks = chunks_of(spec, info);
  if (chunks.size() > 1) cache.load(volume, spec.volume, chunks, limits);
  for (const auto& chunk : chunks) {
    const auto pin = cache.get(volume, spec.volume, chunk);
    part.chunk_origin = three(chunk, 0);
    for (size_t d = 0; d < 3; ++d) part.chunk_origin[d] *= part.chunk_shape[d];
    copy_part(part, pin.samples(), scale, out);
  }
}

void add_noise(std::span<float> trace, float deviation, const Philox& noise, uint64_t first) {
  for (size_t k = 0; k < trace.size(); ++k) {
    const uint64_t element = first + k;
    trace[k] += deviation * nearly_normal(noise.block(element / 2))[element % 2];
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
  const float limit =
      normalisation.clip > 0 ? normalisation.clip : std::numeric_limits<float>::max();
  copy_window(spec, volume, cache, limits,
              {normalisation.mean, 1 / normalisation.deviation, limit, spec.gain}, out);
  if (spec.noise != 0) {
    const std::vector<uint8_t>& live = volume.live();
    const int64_t columns = volume.info().axes[spec.origin.size() - 2].size();
    const Philox noise(spec.noise_seed, RandomPurpose::kAugmentNoise,
                       static_cast<uint64_t>(spec.sample_number));
    for (int64_t i = 0; i < shape[0]; ++i) {
      for (int64_t x = 0; x < shape[1]; ++x) {
        if (live[static_cast<size_t>((origin[0] + i) * columns + origin[1] + x)] == 0) continue;
        const auto first = static_cast<size_t>((i * shape[1] + x) * shape[2]);
        add_noise(out.subspan(first, static_cast<size_t>(shape[2])), spec.noise, noise,
                  spec.first_element + first);
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
