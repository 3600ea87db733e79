#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "craton/base/strong.h"

namespace craton::parallel {

/// Elements of a chunk. Fixed for all jobs: norms are summed per chunk, so it is part of the
/// results.
inline constexpr int64_t kChunkElements = 16384;

/// A run of elements of the flat space.
struct Extent {
  int64_t offset = 0;
  int64_t length = 0;
  int64_t end() const { return offset + length; }
};

/// One trainable parameter in the flat space.
struct ParameterSlot {
  std::string name;
  std::vector<int64_t> shape;
  int64_t offset = 0;  ///< first element in the flat space
  int64_t numel = 0;   ///< may be 0
  bool decays = true;  ///< weight decay applies
};

/// The flat parameter space of a job: all trainable parameters in registration order without gaps,
/// cut into chunks of kChunkElements (the last one shorter). Chunk c belongs to shard c mod S.
/// Nothing here depends on the number of workers.
class FlatLayout {
 public:
  FlatLayout() = default;
  /// `slots` need name, shape and decays; offsets and counts are computed.
  FlatLayout(std::vector<ParameterSlot> slots, int shard_count);

  const std::vector<ParameterSlot>& slots() const { return slots_; }
  int64_t numel() const { return numel_; }
  int64_t chunk_count() const { return (numel_ + kChunkElements - 1) / kChunkElements; }
  int shard_count() const { return shard_count_; }
  Extent chunk(int64_t index) const;
  ShardId shard_of(int64_t chunk) const {
    return ShardId(static_cast<int32_t>(chunk % shard_count_));
  }

  /// The chunk cut where weight decay changes: (extent, decays).
  struct DecayRun {
    Extent extent;
    bool decays;
  };
  std::vector<DecayRun> decay_runs(int64_t chunk) const;

 private:
  std::vector<ParameterSlot> slots_;
  int64_t numel_ = 0;
  int shard_count_ = 1;
};

/// A run of chunks that is reduced as one, so that reduction overlaps with backward.
struct Bucket {
  int64_t first_chunk = 0;
  int64_t chunk_count = 0;
  Extent extent;  ///< in elements
};

/// Cuts the flat space into buckets of about `bucket_bytes` of fp32 gradient (whole chunks, at
/// least one). The bits of a step do not depend on it.
std::vector<Bucket> make_buckets(const FlatLayout& layout, uint64_t bucket_bytes);

}  // namespace craton::parallel
