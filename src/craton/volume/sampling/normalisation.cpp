#include "craton/volume/sampling/normalisation.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "craton/base/error.h"
#include "craton/base/log.h"

namespace craton::volume {
namespace {

constexpr int64_t kChunks = 64;  // that are read of a volume without statistics

// Over finite samples other than zero, of chunks spread evenly; summed in one order, so the same
// everywhere.
Statistics measure(const Volume& volume) {
  const VolumeInfo& info = volume.info();
  const std::vector<int64_t> shape = info.shape();
  int64_t chunks = 1, elements = 1;
  std::vector<int64_t> grid;
  for (size_t d = 0; d < shape.size(); ++d) {
    grid.push_back((shape[d] + info.chunk_shape[d] - 1) / info.chunk_shape[d]);
    chunks *= grid.back();
    elements *= info.chunk_shape[d];
  }
  const int64_t count = std::min(chunks, kChunks);
  Statistics s;
  std::vector<float> samples(static_cast<size_t>(elements));
  std::vector<int64_t> index(shape.size());
  for (int64_t k = 0; k < count; ++k) {
    int64_t rest = (2 * k + 1) * chunks / (2 * count);
    for (size_t d = shape.size(); d-- > 0; rest /= grid[d]) index[d] = rest % grid[d];
    volume.read_chunk(index, samples);
    for (const float x : samples) {
      if (x == 0 || !std::isfinite(x)) continue;
      ++s.count;
      s.sum += x;
      s.sum_squares += static_cast<double>(x) * x;
    }
  }
  log_info(
      "volume {} has no statistics; mean {:.4g} and deviation {:.4g} come from {} of its {} chunks",
      info.name, s.mean(), s.standard_deviation(), count, chunks);
  return s;
}

}  // namespace

float Normalisation::apply(float sample) const {
  const float x = (sample - mean) / deviation;
  return clip > 0 ? std::clamp(x, -clip, clip) : x;
}

Normalisation normalisation_of(const Volume& volume, double clip_deviations) {
  const VolumeInfo& info = volume.info();
  const Statistics s = info.statistics.count > 0 ? info.statistics : measure(volume);
  const double deviation = s.standard_deviation();
  if (!(deviation > 1e-30) || !std::isfinite(deviation) || !std::isfinite(s.mean())) {
    fail(ErrorCode::kInvalidArgument,
         "volume {} ({}) has samples of mean {} and deviation {}: there is nothing to learn; leave "
         "it out",
         info.name, info.uri, s.mean(), deviation);
  }
  return {static_cast<float>(s.mean()), static_cast<float>(deviation),
          static_cast<float>(clip_deviations)};
}

}  // namespace craton::volume
