#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
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

  /// Puts a chunk's elements where they belong; false when it is absent: they are fill.
  using Decode = std::function<bool(std::span<std::byte> out)>;
  /// Many chunks by one plan: indexes of shards are read once, neighbours come in one request,
  /// requests are in flight together. `place(i, decode)` is called once for each on this thread, as
  /// its bytes arrive, and calls `decode` once with chunk_bytes().
  void read_chunks(std::span<const std::vector<int64_t>> chunks, const store::ReadLimits& limits,
                   const std::function<void(size_t i, const Decode& decode)>& place) const;

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
  /// A shard's index, and the version of the shard that it belongs to.
  struct KnownShard {
    std::shared_ptr<const ShardIndex> index;  ///< null: there is no such shard
    std::string etag;
  };
  /// Which shard an inner chunk lies in, and its number there.
  struct InnerPlace {
    std::vector<int64_t> shard;
    size_t number = 0;
  };
  class Block;
  class Reading;
  InnerPlace inner_place(std::span<const int64_t> chunk) const;
  void check_index(std::span<const int64_t> chunk) const;
  std::shared_ptr<const ShardIndex> decode_index(std::span<const std::byte> encoded) const;
  /// Reads the indexes of these shards that are not known yet.
  std::map<std::string, KnownShard> known_shards(const std::set<std::string>& keys,
                                                 const store::ReadLimits& limits) const;
  void forget_shard(const std::string& key) const;

  std::shared_ptr<store::ObjectStore> store_;
  std::string path_;
  ArrayMetadata metadata_;
  std::vector<int64_t> grid_;
  size_t chunk_bytes_ = 0;

  std::string form_;  ///< what a cache keeps of the chunks, see ObjectRead::form

  /// Indexes of shards that were read, dropped all at once when they exceed their bound.
  struct IndexCache {
    std::mutex mutex;
    std::unordered_map<std::string, KnownShard> shards;
    size_t entries = 0;
  };
  std::unique_ptr<IndexCache> cache_;
};

}  // namespace craton::volume::zarr
