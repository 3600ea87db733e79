#include "craton/volume/zarr/array.h"

#include <algorithm>
#include <map>
#include <utility>

#include "craton/base/error.h"

namespace craton::volume::zarr {

namespace {

constexpr size_t kCachedIndexEntries = 8 << 20;  // 64 MiB
constexpr uint64_t kMostGap = 64 << 10;          // between inner chunks that are fetched together
constexpr uint64_t kMostRange = 16 << 20;

/// Adds the key to errors that come from decoding.
template <typename F>
auto with_key(const std::string& key, const F& body) {
  try {
    return body();
  } catch (Error& e) {
    const bool from_decoding =
        e.code() == ErrorCode::kCorrupt || e.code() == ErrorCode::kUnsupported;
    if (!from_decoding || !e.context().empty()) throw;
    throw std::move(e.with("key", key));
  }
}

/// Calls decode(bytes). Bytes that turn out damaged are fetched once more, since a store that
/// answers wrongly now and then is better asked again; a second failure carries the key.
template <typename Decode, typename Refetch>
auto decode_fetched(const std::string& key, std::span<const std::byte> bytes, const Decode& decode,
                    const Refetch& refetch) {
  return with_key(key, [&] {
    try {
      return decode(bytes);
    } catch (const Error& e) {
      if (e.code() != ErrorCode::kCorrupt) throw;
    }
    const Bytes again = refetch();
    return decode(again);
  });
}

/// Calls body(index) for all indexes from `first` to `last`, in C order.
template <typename F>
void for_each_index(const std::vector<int64_t>& first, const std::vector<int64_t>& last,
                    const F& body) {
  std::vector<int64_t> at = first;
  while (true) {
    body(at);
    size_t axis = at.size();
    while (axis > 0 && at[axis - 1] == last[axis - 1]) {
      --axis;
      at[axis] = first[axis];
    }
    if (axis == 0) return;
    ++at[axis - 1];
  }
}

Bytes& encoded_buffer() {
  thread_local Bytes buffer;
  return buffer;
}

}  // namespace

Array::Array(std::shared_ptr<store::ObjectStore> store, std::string path, ArrayMetadata metadata)
    : store_(std::move(store)),
      path_(std::move(path)),
      metadata_(std::move(metadata)),
      cache_(std::make_unique<IndexCache>()) {
  const auto& chunk = metadata_.chunk_shape();
  for (size_t i = 0; i < metadata_.rank(); ++i)
    grid_.push_back((metadata_.shape[i] + chunk[i] - 1) / chunk[i]);
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
  const auto fetch = [&]() -> std::optional<Bytes> {
    try {
      return sharding.index_at_start ? store_->get_range(key, 0, size)
                                     : store_->get_suffix(key, size);
    } catch (Error& e) {
      if (e.code() != ErrorCode::kOutOfRange) throw;
      throw Error(ErrorCode::kCorrupt,
                  fmt::format("a shard shorter than its index of {} bytes", size))
          .with("key", key);
    }
  };
  const auto decode = [&](std::span<const std::byte> encoded) {
    if (encoded.size() != size)
      fail(ErrorCode::kCorrupt, "a shard of {} bytes is shorter than its index of {}",
           encoded.size(), size);
    return std::make_shared<const ShardIndex>(
        decode_shard_index(sharding, encoded, metadata_.object_shape, metadata_.type.size));
  };
  std::shared_ptr<const ShardIndex> index;
  if (const auto bytes = fetch())
    index = decode_fetched(key, *bytes, decode, [&] { return fetch().value_or(Bytes()); });
  std::lock_guard lock(cache_->mutex);
  const size_t entries = index ? index->entries.size() : 1;
  if (cache_->entries + entries > kCachedIndexEntries) {
    cache_->indexes.clear();
    cache_->entries = 0;
  }
  if (cache_->indexes.emplace(key, index).second) cache_->entries += entries;
  return index;
}

Array::InnerPlace Array::inner_place(std::span<const int64_t> chunk) const {
  const Sharding& sharding = *metadata_.codecs.sharding;
  InnerPlace place;
  for (size_t i = 0; i < chunk.size(); ++i) {
    const int64_t per_shard = metadata_.object_shape[i] / sharding.chunk_shape[i];
    place.shard.push_back(chunk[i] / per_shard);
    place.number =
        place.number * static_cast<size_t>(per_shard) + static_cast<size_t>(chunk[i] % per_shard);
  }
  return place;
}

Bytes Array::shard_range(const std::string& key, uint64_t offset, uint64_t length) const {
  std::optional<Bytes> bytes;
  try {
    bytes = store_->get_range(key, offset, length);
  } catch (Error& e) {
    if (e.code() != ErrorCode::kOutOfRange) throw;
    throw Error(ErrorCode::kCorrupt,
                fmt::format("shard index: bytes {} to {} lie past the end of the shard", offset,
                            offset + length))
        .with("key", key);
  }
  if (!bytes)
    throw Error(ErrorCode::kNotFound, "a shard vanished while it was read").with("key", key);
  return std::move(*bytes);
}

void Array::decode_inner(const std::string& key, uint64_t offset,
                         std::span<const std::byte> encoded, std::span<std::byte> out) const {
  const Sharding& sharding = *metadata_.codecs.sharding;
  decode_fetched(
      key, encoded,
      [&](std::span<const std::byte> bytes) {
        decode_chunk(sharding.inner, bytes, sharding.chunk_shape, metadata_.type, metadata_.fill,
                     out);
      },
      [&] { return shard_range(key, offset, encoded.size()); });
}

bool Array::read_inner_chunk(std::span<const int64_t> chunk, std::span<std::byte> out) const {
  const InnerPlace place = inner_place(chunk);
  const auto index = shard_index(place.shard);
  if (!index || index->is_absent(place.number)) {
    fill_elements(out, metadata_.fill);
    return false;
  }
  const std::string key = object_key(place.shard);
  const uint64_t offset = index->offset(place.number);
  decode_inner(key, offset, shard_range(key, offset, index->length(place.number)), out);
  return true;
}

bool Array::read_chunk(std::span<const int64_t> chunk, std::span<std::byte> out) const {
  for (size_t i = 0; i < grid_.size(); ++i)
    if (chunk.size() != grid_.size() || chunk[i] < 0 || chunk[i] >= grid_[i])
      fail(ErrorCode::kOutOfRange, "array \"{}\" has no chunk at [{}]; its grid is [{}]", path_,
           fmt::join(chunk, ", "), fmt::join(grid_, ", "));
  if (out.size() != chunk_bytes_)
    fail(ErrorCode::kInternal, "a buffer of {} bytes for a chunk of {}", out.size(), chunk_bytes_);
  if (metadata_.has_inner_chunks()) return read_inner_chunk(chunk, out);
  const std::string key = object_key(chunk);
  const auto bytes = store_->get_into(key, encoded_buffer());
  if (!bytes) {
    fill_elements(out, metadata_.fill);
    return false;
  }
  decode_fetched(
      key, *bytes,
      [&](std::span<const std::byte> encoded) {
        decode_chunk(metadata_.codecs, encoded, metadata_.object_shape, metadata_.type,
                     metadata_.fill, out);
      },
      [&] { return store_->get(key).value_or(Bytes()); });
  return true;
}

/// Puts the chunks of one block where they belong: straight into the block where a chunk's rows
/// follow one another there, else through a buffer.
class Array::Block {
 public:
  Block(const Array& array, std::span<const int64_t> origin, std::span<const int64_t> shape,
        std::span<std::byte> out)
      : array_(array), origin_(origin), shape_(shape), out_(out) {}

  /// Calls decode(target) for the chunk at `at`.
  template <typename Decode>
  void place(std::span<const int64_t> at, const Decode& decode) {
    const auto& chunk_shape = array_.metadata_.chunk_shape();
    const size_t rank = at.size(), size = array_.metadata_.type.size;
    std::vector<int64_t> in_chunk(rank), in_out(rank), extent(rank);
    bool whole = true, split = false;
    int64_t offset = 0;
    for (size_t i = 0; i < rank; ++i) {
      const int64_t begin = at[i] * chunk_shape[i], end = begin + chunk_shape[i];
      const int64_t from = std::max(begin, origin_[i]);
      in_chunk[i] = from - begin;
      in_out[i] = from - origin_[i];
      extent[i] = std::min(end, origin_[i] + shape_[i]) - from;
      whole = whole && extent[i] == chunk_shape[i] && (!split || extent[i] == shape_[i]);
      split = split || extent[i] > 1;
      offset = offset * shape_[i] + in_out[i];
    }
    if (whole) return decode(out_.subspan(static_cast<size_t>(offset) * size, array_.chunk_bytes_));
    if (scratch_.empty()) scratch_.resize(array_.chunk_bytes_);
    decode(std::span<std::byte>(scratch_));
    copy_box(scratch_.data(), chunk_shape, in_chunk, out_.data(), shape_, in_out, extent, size);
  }

 private:
  const Array& array_;
  std::span<const int64_t> origin_, shape_;
  std::span<std::byte> out_;
  Bytes scratch_;
};

void Array::read(std::span<const int64_t> origin, std::span<const int64_t> shape,
                 std::span<std::byte> out) const {
  const size_t rank = metadata_.rank(), size = metadata_.type.size;
  bool inside = origin.size() == rank && shape.size() == rank;
  for (size_t i = 0; inside && i < rank; ++i)
    inside = origin[i] >= 0 && shape[i] >= 0 && shape[i] <= metadata_.shape[i] &&
             origin[i] <= metadata_.shape[i] - shape[i];
  if (!inside)
    fail(ErrorCode::kOutOfRange, "block [{}] at [{}] leaves the array \"{}\" of shape [{}]",
         fmt::join(shape, ", "), fmt::join(origin, ", "), path_, fmt::join(metadata_.shape, ", "));
  if (out.size() != static_cast<size_t>(element_count(shape)) * size)
    fail(ErrorCode::kInternal, "a buffer of {} bytes for a block of [{}] elements of {}",
         out.size(), fmt::join(shape, ", "), size);
  if (out.empty()) return;
  const auto& chunk_shape = metadata_.chunk_shape();
  std::vector<int64_t> first(rank), last(rank);
  for (size_t i = 0; i < rank; ++i) {
    first[i] = origin[i] / chunk_shape[i];
    last[i] = (origin[i] + shape[i] - 1) / chunk_shape[i];
  }
  Block block(*this, origin, shape, out);
  std::map<std::vector<int64_t>, std::vector<std::vector<int64_t>>> by_shard;
  for_each_index(first, last, [&](const std::vector<int64_t>& at) {
    if (metadata_.has_inner_chunks()) {
      by_shard[inner_place(at).shard].push_back(at);
    } else {
      block.place(at, [&](std::span<std::byte> target) { read_chunk(at, target); });
    }
  });
  for (const auto& [shard, chunks] : by_shard) read_from_shard(shard, chunks, block);
}

void Array::read_from_shard(const std::vector<int64_t>& shard,
                            const std::vector<std::vector<int64_t>>& chunks, Block& block) const {
  struct Piece {
    uint64_t offset, length;
    const std::vector<int64_t>* chunk;
  };
  const auto index = shard_index(shard);
  const std::string key = object_key(shard);
  std::vector<Piece> pieces;
  for (const auto& chunk : chunks) {
    const size_t number = inner_place(chunk).number;
    if (!index || index->is_absent(number)) {
      block.place(chunk, [&](std::span<std::byte> to) { fill_elements(to, metadata_.fill); });
    } else {
      pieces.push_back({index->offset(number), index->length(number), &chunk});
    }
  }
  std::ranges::sort(pieces, {}, &Piece::offset);
  for (size_t begin = 0; begin < pieces.size();) {
    // One request for neighbours, as long as little is fetched in vain.
    const uint64_t start = pieces[begin].offset;
    uint64_t end = start + pieces[begin].length;
    size_t next = begin + 1;
    for (; next < pieces.size() && pieces[next].offset <= end + kMostGap; ++next) {
      const uint64_t piece_end = pieces[next].offset + pieces[next].length;
      if (std::max(end, piece_end) - start > kMostRange) break;
      end = std::max(end, piece_end);
    }
    const Bytes bytes = shard_range(key, start, end - start);
    for (; begin < next; ++begin) {
      const Piece& piece = pieces[begin];
      const auto encoded = std::span(bytes).subspan(piece.offset - start, piece.length);
      block.place(*piece.chunk,
                  [&](std::span<std::byte> to) { decode_inner(key, piece.offset, encoded, to); });
    }
  }
}

Bytes Array::read_all() const {
  Bytes out(static_cast<size_t>(element_count(metadata_.shape)) * metadata_.type.size);
  read(std::vector<int64_t>(metadata_.rank(), 0), metadata_.shape, out);
  return out;
}

void Array::write_chunk(std::span<const int64_t> chunk, std::span<const std::byte> elements) {
  store_->put(object_key(chunk),
              encode_chunk(metadata_.codecs, elements, metadata_.object_shape, metadata_.type));
}

}  // namespace craton::volume::zarr
