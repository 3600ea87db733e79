#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "craton/store/object_store.h"
#include "craton/volume/zarr/metadata.h"
#include "craton/volume/zarr/shard.h"

namespace craton::volume::zarr {

/// One Zarr array in a store. Reading is thread-safe; so is writing of different objects.
/// Elements are little-endian bytes in C order. An absent object reads as the fill value; every
/// other fault is an Error with the key. Bytes that do not decode are fetched once more first.
class Array {
 public:
  /// `path` is relative to the store, "" for an array at its root.
  Array(std::shared_ptr<store::ObjectStore> store, std::string path, ArrayMetadata metadata);

  const ArrayMetadata& metadata() const { return metadata_; }
  const std::string& path() const { return path_; }
  /// Chunks per axis, in the units of metadata().chunk_shape().
  const std::vector<int64_t>& grid() const { return grid_; }
  size_t chunk_bytes() const { return chunk_bytes_; }

  /// Decodes one chunk (padding past the edge as stored) into `out` of chunk_bytes(). False when it
  /// is absent: `out` is fill.
  bool read_chunk(std::span<const int64_t> chunk, std::span<std::byte> out) const;

  /// Fills `out` with the block; kOutOfRange when it leaves the array. Decodes in place where a
  /// chunk's layout is the block's.
  void read(std::span<const int64_t> origin, std::span<const int64_t> shape,
            std::span<std::byte> out) const;
  /// The whole array.
  Bytes read_all() const;

  /// Encodes and puts one object (not sharded: one chunk).
  void write_chunk(std::span<const int64_t> chunk, std::span<const std::byte> elements);
  /// The object as it lies in the store; kInternal for sharded arrays.
  std::string object_key(std::span<const int64_t> object) const;

 private:
  std::shared_ptr<const ShardIndex> shard_index(std::span<const int64_t> shard) const;
  /// Which shard an inner chunk lies in, and its number there.
  struct InnerPlace {
    std::vector<int64_t> shard;
    size_t number = 0;
  };
  class Block;
  InnerPlace inner_place(std::span<const int64_t> chunk) const;
  Bytes shard_range(const std::string& key, uint64_t offset, uint64_t length) const;
  void decode_inner(const std::string& key, uint64_t offset, std::span<const std::byte> encoded,
                    std::span<std::byte> out) const;
  void read_from_shard(const std::vector<int64_t>& shard,
                       const std::vector<std::vector<int64_t>>& chunks, Block& block) const;
  bool read_inner_chunk(std::span<const int64_t> chunk, std::span<std::byte> out) const;

  std::shared_ptr<store::ObjectStore> store_;
  std::string path_;
  ArrayMetadata metadata_;
  std::vector<int64_t> grid_;
  size_t chunk_bytes_ = 0;

  /// Indexes of shards that were read, dropped all at once when they exceed their bound.
  struct IndexCache {
    std::mutex mutex;
    std::unordered_map<std::string, std::shared_ptr<const ShardIndex>> indexes;
    size_t entries = 0;
  };
  std::unique_ptr<IndexCache> cache_;
};

}  // namespace craton::volume::zarr
