#include "craton/volume/volume.h"

#include <algorithm>
#include <cmath>

namespace craton::volume {

double Statistics::standard_deviation() const {
  if (count <= 0) return 0;
  const double n = static_cast<double>(count);
  return std::sqrt(std::max(0.0, sum_squares / n - (sum / n) * (sum / n)));
}

std::vector<int64_t> VolumeInfo::shape() const {
  std::vector<int64_t> out;
  for (const Axis& axis : axes) out.push_back(axis.size());
  return out;
}

std::vector<int64_t> default_chunk_shape(std::span<const int64_t> shape) {
  const int64_t edge = shape.size() >= 3 ? 64 : 512;
  std::vector<int64_t> out;
  for (int64_t n : shape) out.push_back(std::clamp<int64_t>(n, 1, edge));
  return out;
}

}  // namespace craton::volume
