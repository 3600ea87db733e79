#include "craton/volume/zarr/shard.h"

#include <algorithm>
#include <cstring>

#include "craton/base/error.h"

namespace craton::volume::zarr {

namespace {

const DataType kIndexType{Kind::kUint, 8};
constexpr int64_t kMaxChunksPerShard = 1 << 24;

std::vector<int64_t> index_shape(const Sharding& sharding, std::span<const int64_t> shard_shape) {
  std::vector<int64_t> shape = shard_grid(sharding, shard_shape);
  shape.push_back(2);
  return shape;
}

}  // namespace

std::vector<int64_t> shard_grid(const Sharding& sharding, std::span<const int64_t> shard_shape) {
  std::vector<int64_t> grid;
  for (size_t i = 0; i < shard_shape.size(); ++i)
    grid.push_back(shard_shape[i] / sharding.chunk_shape[i]);
  if (element_count(grid) > kMaxChunksPerShard)
    fail(ErrorCode::kUnsupported, "a shard of {} inner chunks; at most {} are handled",
         element_count(grid), kMaxChunksPerShard);
  return grid;
}

size_t shard_index_bytes(const Sharding& sharding, std::span<const int64_t> shard_shape) {
  return 16 * static_cast<size_t>(element_count(shard_grid(sharding, shard_shape))) +
         4 * sharding.index.bytes_codecs.size();
}

ShardIndex decode_shard_index(const Sharding& sharding, std::span<const std::byte> bytes,
                              std::span<const int64_t> shard_shape, uint32_t element_size) {
  const auto shape = index_shape(sharding, shard_shape);
  ShardIndex index;
  index.entries.resize(static_cast<size_t>(element_count(shape)));
  decode_chunk(sharding.index, bytes, shape, kIndexType, {},
               std::as_writable_bytes(std::span(index.entries)));
  uint64_t chunk_bytes = static_cast<uint64_t>(element_count(sharding.chunk_shape)) * element_size;
  if (sharding.inner.sharding)
    chunk_bytes += shard_index_bytes(*sharding.inner.sharding, sharding.chunk_shape);
  for (size_t i = 0; i < index.entries.size() / 2; ++i) {
    if (index.is_absent(i)) continue;
    if (index.length(i) > 2 * chunk_bytes + (1 << 16) || index.offset(i) > ~0ull - index.length(i))
      fail(ErrorCode::kCorrupt,
           "shard index: inner chunk {} of {} bytes at {}, but it decodes to {} bytes", i,
           index.length(i), index.offset(i), chunk_bytes);
  }
  return index;
}

void decode_shard(const Sharding& sharding, std::span<const std::byte> object,
                  std::span<const int64_t> shard_shape, const DataType& type,
                  std::span<const std::byte> fill, std::span<std::byte> out) {
  const size_t index_bytes = shard_index_bytes(sharding, shard_shape);
  if (object.size() < index_bytes)
    fail(ErrorCode::kCorrupt, "a shard of {} bytes is shorter than its index of {}", object.size(),
         index_bytes);
  const auto encoded_index =
      sharding.index_at_start ? object.first(index_bytes) : object.last(index_bytes);
  const ShardIndex index = decode_shard_index(sharding, encoded_index, shard_shape, type.size);
  const auto grid = shard_grid(sharding, shard_shape);
  const size_t rank = grid.size();
  Bytes chunk(static_cast<size_t>(element_count(sharding.chunk_shape)) * type.size);
  std::vector<int64_t> at(rank), zero(rank, 0);
  for (size_t i = 0; i < index.entries.size() / 2; ++i) {
    size_t rest = i;
    for (size_t axis = rank; axis-- > 0;) {
      at[axis] =
          static_cast<int64_t>(rest % static_cast<size_t>(grid[axis])) * sharding.chunk_shape[axis];
      rest /= static_cast<size_t>(grid[axis]);
    }
    if (index.is_absent(i)) {
      fill_elements(chunk, fill);
    } else {
      if (index.offset(i) + index.length(i) > object.size())
        fail(ErrorCode::kCorrupt, "shard index: inner chunk {} ends at byte {} of {}", i,
             index.offset(i) + index.length(i), object.size());
      decode_chunk(sharding.inner, object.subspan(index.offset(i), index.length(i)),
                   sharding.chunk_shape, type, fill, chunk);
    }
    copy_box(chunk.data(), sharding.chunk_shape, zero, out.data(), shard_shape, at,
             sharding.chunk_shape, type.size);
  }
}

Bytes encode_shard(const Sharding& sharding, std::span<const std::optional<Bytes>> chunks,
                   std::span<const int64_t> shard_shape) {
  const size_t index_bytes = shard_index_bytes(sharding, shard_shape);
  size_t total = sharding.index_at_start ? index_bytes : 0;
  std::vector<uint64_t> entries;
  for (const auto& chunk : chunks) {
    entries.push_back(chunk ? total : ShardIndex::kAbsent);
    entries.push_back(chunk ? chunk->size() : ShardIndex::kAbsent);
    if (chunk) total += chunk->size();
  }
  const Bytes index = encode_chunk(sharding.index, std::as_bytes(std::span(entries)),
                                   index_shape(sharding, shard_shape), kIndexType);
  Bytes out;
  out.reserve(total + index_bytes);
  if (sharding.index_at_start) out.insert(out.end(), index.begin(), index.end());
  for (const auto& chunk : chunks)
    if (chunk) out.insert(out.end(), chunk->begin(), chunk->end());
  if (!sharding.index_at_start) out.insert(out.end(), index.begin(), index.end());
  return out;
}

}  // namespace craton::volume::zarr
