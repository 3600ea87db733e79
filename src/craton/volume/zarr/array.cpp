#include "craton/volume/zarr/array.h"

#include <algorithm>
#include <utility>

#include "craton/base/error.h"

namespace craton::volume::zarr {

namespace {

constexpr size_t kCachedIndexEntries = 8 << 20;  // 64 MiB

/// Adds the key to errors that come from decoding.
template <typename F>
auto with_key(const std::string& key, const F& body) {
  try {
    return body();
  } catch (Error& e) {
    if (e.code() != ErrorCode::kCorrupt && e.code() != ErrorCode::kUnsupported) throw;
    throw std::move(e.with("key", key));
  }
}

Bytes& encoded_buffer() {
  thread_local Bytes buffer;
  return buffer;
}

}  // namespace

Array::Array(std::shared_ptr<store::ObjectStore> store, std::string path, ArrayMetadata metadata)
    : store_(std::move(store)), path_(std::move(path)), metadata_(std::move(metadata)), cache_(std::make_unique<IndexCache>()) {
  const auto& chunk = metadata_.chunk_shape();
  for (size_t i = 0; i < metadata_.rank(); ++i) grid_.push_back((metadata_.shape[i] + chunk[i] - 1) / chunk[i]);
  chunk_bytes_ = static_cast<size_t>(element_count(chunk)) * metadata_.type.size;
}

std::string Array::object_key(std::span<const int64_t> object) const {
  const std::string key = metadata_.object_key(object);
  return path_.empty() ? key : path_ + "/" + key;
}

std::shared_ptr<const ShardIndex> Array::shard_index(std::span<const int64_t> shard) const {
  const std::string key = object_key(shard);
  {
    std::lock_guard lock(cache_->mutex);
    const auto it = cache_->indexes.find(key);
    if (it != cache_->indexes.end()) return it->second;
  }
  const Sharding& sharding = *metadata_.codecs.sharding;
  const size_t size = shard_index_bytes(sharding, metadata_.object_shape);
  std::optional<Bytes> bytes;
  try {
    bytes = sharding.index_at_start ? store_->get_range(key, 0, size) : store_->get_suffix(key, size);
  } catch (Error& e) {
    if (e.code() != ErrorCode::kOutOfRange) throw;
    throw Error(ErrorCode::kCorrupt, fmt::format("a shard shorter than its index of {} bytes", size)).with("key", key);
  }
  std::shared_ptr<const ShardIndex> index;
  if (bytes) {
    index = with_key(key, [&] {
      if (bytes->size() != size) fail(ErrorCode::kCorrupt, "a shard of {} bytes is shorter than its index of {}", bytes->size(), size);
      return std::make_shared<const ShardIndex>(
          decode_shard_index(sharding, *bytes, metadata_.object_shape, metadata_.type.size));
    });
  }
  std::lock_guard lock(cache_->mutex);
  const size_t entries = index ? index->entries.size() : 1;
  if (cache_->entries + entries > kCachedIndexEntries) {
    cache_->indexes.clear();
    cache_->entries = 0;
  }
  if (cache_->indexes.emplace(key, index).second) cache_->entries += entries;
  return index;
}

bool Array::read_inner_chunk(std::span<const int64_t> chunk, std::span<std::byte> out) const {
  const Sharding& sharding = *metadata_.codecs.sharding;
  std::vector<int64_t> shard;
  size_t inner = 0;
  for (size_t i = 0; i < chunk.size(); ++i) {
    const int64_t per_shard = metadata_.object_shape[i] / sharding.chunk_shape[i];
    shard.push_back(chunk[i] / per_shard);
    inner = inner * static_cast<size_t>(per_shard) + static_cast<size_t>(chunk[i] % per_shard);
  }
  const auto index = shard_index(shard);
  if (!index || index->is_absent(inner)) {
    fill_elements(out, metadata_.fill);
    return false;
  }
  const std::string key = object_key(shard);
  std::optional<Bytes> bytes;
  try {
    bytes = store_->get_range(key, index->offset(inner), index->length(inner));
  } catch (Error& e) {
    if (e.code() != ErrorCode::kOutOfRange) throw;
    throw Error(ErrorCode::kCorrupt, fmt::format("shard index: inner chunk {} lies past the end of the shard", inner)).with("key", key);
  }
  if (!bytes) throw Error(ErrorCode::kNotFound, "a shard vanished while it was read").with("key", key);
  with_key(key, [&] { decode_chunk(sharding.inner, *bytes, sharding.chunk_shape, metadata_.type, metadata_.fill, out); });
  return true;
}

bool Array::read_chunk(std::span<const int64_t> chunk, std::span<std::byte> out) const {
  for (size_t i = 0; i < grid_.size(); ++i)
    if (chunk.size() != grid_.size() || chunk[i] < 0 || chunk[i] >= grid_[i])
      fail(ErrorCode::kOutOfRange, "array \"{}\" has no chunk at [{}]; its grid is [{}]", path_, fmt::join(chunk, ", "),
           fmt::join(grid_, ", "));
  if (out.size() != chunk_bytes_) fail(ErrorCode::kInternal, "a buffer of {} bytes for a chunk of {}", out.size(), chunk_bytes_);
  if (metadata_.has_inner_chunks()) return read_inner_chunk(chunk, out);
  const std::string key = object_key(chunk);
  const auto bytes = store_->get_into(key, encoded_buffer());
  if (!bytes) {
    fill_elements(out, metadata_.fill);
    return false;
  }
  with_key(key, [&] { decode_chunk(metadata_.codecs, *bytes, metadata_.object_shape, metadata_.type, metadata_.fill, out); });
  return true;
}

void Array::read(std::span<const int64_t> origin, std::span<const int64_t> shape, std::span<std::byte> out) const {
  const size_t rank = metadata_.rank();
  bool inside = origin.size() == rank && shape.size() == rank;
  for (size_t i = 0; inside && i < rank; ++i)
    inside = origin[i] >= 0 && shape[i] >= 0 && shape[i] <= metadata_.shape[i] && origin[i] <= metadata_.shape[i] - shape[i];
  if (!inside)
    fail(ErrorCode::kOutOfRange, "block [{}] at [{}] leaves the array \"{}\" of shape [{}]", fmt::join(shape, ", "),
         fmt::join(origin, ", "), path_, fmt::join(metadata_.shape, ", "));
  const size_t size = metadata_.type.size;
  if (out.size() != static_cast<size_t>(element_count(shape)) * size)
    fail(ErrorCode::kInternal, "a buffer of {} bytes for a block of [{}] elements of {}", out.size(), fmt::join(shape, ", "), size);
  if (out.empty()) return;
  const auto& chunk_shape = metadata_.chunk_shape();
  std::vector<int64_t> first(rank), last(rank), at(rank);
  for (size_t i = 0; i < rank; ++i) {
    first[i] = origin[i] / chunk_shape[i];
    last[i] = (origin[i] + shape[i] - 1) / chunk_shape[i];
  }
  at = first;
  Bytes scratch;
  while (true) {
    std::vector<int64_t> in_chunk(rank), in_out(rank), extent(rank);
    bool whole = true;  // the chunk is inside the block, and its rows follow one another in `out` as well
    bool split = false;
    int64_t offset = 0;
    for (size_t i = 0; i < rank; ++i) {
      const int64_t begin = at[i] * chunk_shape[i], end = begin + chunk_shape[i];
      const int64_t from = std::max(begin, origin[i]), to = std::min(end, origin[i] + shape[i]);
      in_chunk[i] = from - begin;
      in_out[i] = from - origin[i];
      extent[i] = to - from;
      whole = whole && extent[i] == chunk_shape[i] && (!split || extent[i] == shape[i]);
      split = split || extent[i] > 1;
      offset = offset * shape[i] + in_out[i];
    }
    if (whole) {
      read_chunk(at, out.subspan(static_cast<size_t>(offset) * size, chunk_bytes_));
    } else {
      if (scratch.empty()) scratch.resize(chunk_bytes_);
      read_chunk(at, scratch);
      copy_box(scratch.data(), chunk_shape, in_chunk, out.data(), shape, in_out, extent, size);
    }
    size_t axis = rank;
    while (axis > 0 && at[axis - 1] == last[axis - 1]) {
      --axis;
      at[axis] = first[axis];
    }
    if (axis == 0) return;
    ++at[axis - 1];
  }
}

Bytes Array::read_all() const {
  Bytes out(static_cast<size_t>(element_count(metadata_.shape)) * metadata_.type.size);
  read(std::vector<int64_t>(metadata_.rank(), 0), metadata_.shape, out);
  return out;
}

void Array::write_chunk(std::span<const int64_t> chunk, std::span<const std::byte> elements) {
  store_->put(object_key(chunk), encode_chunk(metadata_.codecs, elements, metadata_.object_shape, metadata_.type));
}

}  // namespace craton::volume::zarr
