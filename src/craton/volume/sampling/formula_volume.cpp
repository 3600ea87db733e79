#include "craton/volume/sampling/formula_volume.h"

#include "craton/base/error.h"

namespace craton::volume {
namespace {

// Calls visit(position) for every position of a box in C order.
template <typename Visit>
void for_each(std::span<const int64_t> shape, Visit visit) {
  std::vector<int64_t> at(shape.size(), 0);
  for (;;) {
    visit(at);
    size_t d = shape.size();
    while (d-- > 0) {
      if (++at[d] < shape[d]) break;
      at[d] = 0;
    }
    if (d == static_cast<size_t>(-1)) return;
  }
}

}  // namespace

void FormulaVolume::read(std::span<const int64_t> origin, std::span<const int64_t> shape,
                         std::span<float> out) const {
  size_t n = 0;
  std::vector<int64_t> place(shape.size());
  for_each(shape, [&](const std::vector<int64_t>& at) {
    bool inside = true;
    int64_t trace = 0;
    for (size_t d = 0; d < at.size(); ++d) {
      place[d] = origin[d] + at[d];
      inside = inside && place[d] < info_.axes[d].size();
      if (d + 1 < at.size()) trace = trace * info_.axes[d].size() + place[d];
    }
    out[n++] = inside && live_[static_cast<size_t>(trace)] != 0 ? formula_(place) : 0;
  });
}

void FormulaVolume::read_chunk(std::span<const int64_t> chunk, std::span<float> out) const {
  const std::vector<int64_t> index(chunk.begin(), chunk.end());
  if (broken_.contains(index)) fail(ErrorCode::kIo, "chunk cannot be read");
  ++reads_;
  {
    const std::lock_guard lock(mutex_);
    touched_.insert(index);
  }
  std::vector<int64_t> origin = index;
  for (size_t d = 0; d < origin.size(); ++d) origin[d] *= info_.chunk_shape[d];
  read(origin, info_.chunk_shape, out);
}

}  // namespace craton::volume
