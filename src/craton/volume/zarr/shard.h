#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "craton/volume/zarr/codec.h"

namespace craton::volume::zarr {

/// Where the inner chunks of one shard lie in its object, in C order of their grid.
struct ShardIndex {
  static constexpr uint64_t kAbsent = ~0ull;
  std::vector<uint64_t> entries;  ///< offset and length per inner chunk
  bool is_absent(size_t i) const {
    return entries[2 * i] == kAbsent && entries[2 * i + 1] == kAbsent;
  }
  uint64_t offset(size_t i) const { return entries[2 * i]; }
  uint64_t length(size_t i) const { return entries[2 * i + 1]; }
};

/// Inner chunks per axis of a shard of `shard_shape`.
std::vector<int64_t> shard_grid(const Sharding& sharding, std::span<const int64_t> shard_shape);

/// The size of the encoded index, which the format fixes: 16 bytes per inner chunk and its
/// checksums.
size_t shard_index_bytes(const Sharding& sharding, std::span<const int64_t> shard_shape);

/// kCorrupt when checksum or size are wrong, or an entry is longer than any encoding of its chunk
/// can be.
ShardIndex decode_shard_index(const Sharding& sharding, std::span<const std::byte> bytes,
                              std::span<const int64_t> shard_shape, uint32_t element_size);

/// Decodes a whole shard that is in memory.
void decode_shard(const Sharding& sharding, std::span<const std::byte> object,
                  std::span<const int64_t> shard_shape, const DataType& type,
                  std::span<const std::byte> fill, std::span<std::byte> out);

/// Puts encoded inner chunks (C order; nullopt = absent) and the index together.
Bytes encode_shard(const Sharding& sharding, std::span<const std::optional<Bytes>> chunks,
                   std::span<const int64_t> shard_shape);

}  // namespace craton::volume::zarr
