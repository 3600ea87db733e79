#include "craton/parallel/flat_layout.h"

#include <algorithm>

#include "craton/base/check.h"

namespace craton::parallel {

FlatLayout::FlatLayout(std::vector<ParameterSlot> slots, int shard_count)
    : slots_(std::move(slots)), shard_count_(shard_count) {
  CRATON_CHECK(shard_count >= 1);
  for (ParameterSlot& slot : slots_) {
    slot.numel = 1;
    for (int64_t n : slot.shape) slot.numel *= n;
    slot.offset = numel_;
    numel_ += slot.numel;
  }
}

Extent FlatLayout::chunk(int64_t index) const {
  CRATON_CHECK(index >= 0 && index < chunk_count(), "chunk {} of {}", index, chunk_count());
  const int64_t offset = index * kChunkElements;
  return {offset, std::min(kChunkElements, numel_ - offset)};
}

std::vector<FlatLayout::DecayRun> FlatLayout::decay_runs(int64_t index) const {
  const Extent whole = chunk(index);
  auto slot =
      std::upper_bound(slots_.begin(), slots_.end(), whole.offset,
                       [](int64_t offset, const ParameterSlot& s) { return offset < s.offset; });
  --slot;  // the last slot that starts at or before the chunk
  std::vector<DecayRun> runs;
  for (; slot != slots_.end() && slot->offset < whole.end(); ++slot) {
    const int64_t begin = std::max(slot->offset, whole.offset);
    const int64_t end = std::min(slot->offset + slot->numel, whole.end());
    if (begin >= end) continue;
    if (!runs.empty() && runs.back().decays == slot->decays) {
      runs.back().extent.length += end - begin;
    } else {
      runs.push_back({{begin, end - begin}, slot->decays});
    }
  }
  return runs;
}

std::vector<Bucket> make_buckets(const FlatLayout& layout, uint64_t bucket_bytes) {
  const int64_t chunks =
      std::max<int64_t>(1, static_cast<int64_t>(bucket_bytes / (kChunkElements * sizeof(float))));
  std::vector<Bucket> buckets;
  for (int64_t first = 0; first < layout.chunk_count(); first += chunks) {
    const int64_t count = std::min(chunks, layout.chunk_count() - first);
    const int64_t offset = first * kChunkElements;
    buckets.push_back({first, count, {offset, layout.chunk(first + count - 1).end() - offset}});
  }
  return buckets;
}

}  // namespace craton::parallel
