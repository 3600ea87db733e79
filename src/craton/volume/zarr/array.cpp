#include "craton/volume/zarr/array.h"

#include <algorithm>
#include <utility>

#include "craton/base/error.h"
#include "craton/volume/zarr/kept_form.h"

namespace craton::volume::zarr {

namespace {

constexpr size_t kMostChunksPlanned = 4096;  // of one block at a time

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
  form_ = kept_form(store_->kept_form(), metadata_);
}

std::string Array::object_key(std::span<const int64_t> object) const {
  const std::string key = metadata_.object_key(object);
  return path_.empty() ? key : path_ + "/" + key;
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

void Array::check_index(std::span<const int64_t> chunk) const {
  for (size_t i = 0; i < grid_.size(); ++i)
    if (chunk.size() != grid_.size() || chunk[i] < 0 || chunk[i] >= grid_[i])
      fail(ErrorCode::kOutOfRange, "array \"{}\" has no chunk at [{}]; its grid is [{}]", path_,
           fmt::join(chunk, ", "), fmt::join(grid_, ", "));
}

bool Array::read_chunk(std::span<const int64_t> chunk, std::span<std::byte> out) const {
  if (out.size() != chunk_bytes_)
    fail(ErrorCode::kInternal, "a buffer of {} bytes for a chunk of {}", out.size(), chunk_bytes_);
  const std::vector<int64_t> one(chunk.begin(), chunk.end());
  bool stored = false;
  read_chunks({&one, 1}, {}, [&](size_t, const Decode& decode) { stored = decode(out); });
  return stored;
}

/// Puts the chunks of one block where they belong: straight into the block where a chunk's rows
/// follow one another there, else through a buffer.
class Array::Block {
 public:
  Block(const Array& array, std::span<const int64_t> origin, std::span<const int64_t> shape,
        std::span<std::byte> out)
      : array_(array), origin_(origin), shape_(shape), out_(out) {}

  /// Calls decode(target) for the chunk at `at`.
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
    if (whole) {
      decode(out_.subspan(static_cast<size_t>(offset) * size, array_.chunk_bytes_));
      return;
    }
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
  std::vector<std::vector<int64_t>> chunks;
  const auto read_batch = [&] {
    read_chunks(chunks, {},
                [&](size_t i, const Decode& decode) { block.place(chunks[i], decode); });
    chunks.clear();
  };
  for_each_index(first, last, [&](const std::vector<int64_t>& at) {
    chunks.push_back(at);
    if (chunks.size() == kMostChunksPlanned) read_batch();
  });
  read_batch();
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
