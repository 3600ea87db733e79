#include "craton/volume/zarr/codec.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "craton/base/error.h"
#include "craton/volume/zarr/shard.h"
#include "craton/volume/zarr/zfp.h"

namespace craton::volume::zarr {

namespace {

using In = std::span<const std::byte>;
using Out = std::span<std::byte>;

/// Steps through all indices of `shape` but the last `inner` axes, in C order.
bool advance(std::vector<int64_t>& index, std::span<const int64_t> shape, size_t inner = 0) {
  for (size_t axis = shape.size() - inner; axis-- > 0;) {
    if (++index[axis] < shape[axis]) return true;
    index[axis] = 0;
  }
  return false;
}

/// One permutation for all transposes: encoded axis i is input axis result[i]. Empty when nothing
/// moves.
std::vector<int> combined_order(const CodecChain& chain, size_t rank) {
  std::vector<int> order(rank);
  std::iota(order.begin(), order.end(), 0);
  for (const auto& transpose : chain.transposes) {
    std::vector<int> next(rank);
    for (size_t i = 0; i < rank; ++i) next[i] = order[static_cast<size_t>(transpose[i])];
    order = std::move(next);
  }
  return std::is_sorted(order.begin(), order.end()) ? std::vector<int>() : order;
}

std::vector<int64_t> encoded_shape(std::span<const int64_t> shape, const std::vector<int>& order) {
  if (order.empty()) return {shape.begin(), shape.end()};
  std::vector<int64_t> out;
  for (const int axis : order) out.push_back(shape[static_cast<size_t>(axis)]);
  return out;
}

/// Moves elements between the plain layout (`shape`, C order) and the encoded one (`order`
/// applied).
void permute(In in, Out out, std::span<const int64_t> shape, const std::vector<int>& order,
             size_t size, bool encode) {
  const size_t rank = shape.size();
  std::vector<int64_t> plain_strides(rank, 1);
  for (size_t i = rank - 1; i-- > 0;) plain_strides[i] = plain_strides[i + 1] * shape[i + 1];
  const std::vector<int64_t> walk = encoded_shape(shape, order);
  std::vector<int64_t> strides(rank), index(rank, 0);
  for (size_t i = 0; i < rank; ++i) strides[i] = plain_strides[static_cast<size_t>(order[i])];
  const int64_t row = walk[rank - 1], step = strides[rank - 1];
  size_t encoded = 0;
  do {
    int64_t plain = 0;
    for (size_t i = 0; i + 1 < rank; ++i) plain += index[i] * strides[i];
    for (int64_t k = 0; k < row; ++k, ++encoded, plain += step) {
      const size_t p = static_cast<size_t>(plain) * size, e = encoded * size;
      if (encode) {
        std::memcpy(out.data() + e, in.data() + p, size);
      } else {
        std::memcpy(out.data() + p, in.data() + e, size);
      }
    }
  } while (advance(index, walk, 1));
}

void expect_size(size_t found, size_t expected) {
  if (found != expected)
    fail(ErrorCode::kCorrupt, "a chunk of {} bytes where its shape and type need {}", found,
         expected);
}

/// Undoes the bytes codecs from the last to the first. The first one's output goes to `target` when
/// that is given. Returns what the serializer sees; `keep` owns it where it is not `encoded` or
/// `target`.
In undo_bytes_codecs(const CodecChain& chain, In encoded, size_t largest, Out target, Bytes& keep) {
  for (size_t i = chain.bytes_codecs.size(); i-- > 0;) {
    const BytesCodec& codec = chain.bytes_codecs[i];
    if (i == 0 && !target.empty()) return target.first(decode_bytes(codec, encoded, target));
    Bytes next(largest);
    next.resize(decode_bytes(codec, encoded, next));
    keep = std::move(next);
    encoded = keep;
  }
  return encoded;
}

void deserialize(const CodecChain& chain, In encoded, std::span<const int64_t> shape,
                 const DataType& type, In fill, Out out) {
  // What a compressor further out may hold: the elements, a little overhead, and the index of a
  // shard.
  const size_t largest = out.size() + out.size() / 4 + (1 << 16) +
                         (chain.sharding ? shard_index_bytes(*chain.sharding, shape) : 0);
  Bytes keep;
  if (chain.serializer == CodecChain::Serializer::kBytes) {
    const In bytes = undo_bytes_codecs(chain, encoded, largest, out, keep);
    expect_size(bytes.size(), out.size());
    if (bytes.data() != out.data() && !out.empty())
      std::memcpy(out.data(), bytes.data(), out.size());
    if (chain.big_endian) swap_bytes(out, type);
    return;
  }
  const In bytes = undo_bytes_codecs(chain, encoded, largest, {}, keep);
  if (chain.serializer == CodecChain::Serializer::kZfp) return zfp_decode(bytes, shape, type, out);
  decode_shard(*chain.sharding, bytes, shape, type, fill, out);
}

}  // namespace

void decode_chunk(const CodecChain& chain, In encoded, std::span<const int64_t> shape,
                  const DataType& type, In fill, Out out) {
  expect_size(out.size(), static_cast<size_t>(element_count(shape)) * type.size);
  const std::vector<int> order = combined_order(chain, shape.size());
  if (order.empty()) return deserialize(chain, encoded, shape, type, fill, out);
  Bytes scratch(out.size());
  deserialize(chain, encoded, encoded_shape(shape, order), type, fill, scratch);
  permute(scratch, out, shape, order, type.size, false);
}

Bytes encode_chunk(const CodecChain& chain, In elements, std::span<const int64_t> shape,
                   const DataType& type) {
  const std::vector<int> order = combined_order(chain, shape.size());
  Bytes scratch;
  if (!order.empty()) {
    scratch.resize(elements.size());
    permute(elements, scratch, shape, order, type.size, true);
    elements = scratch;
  }
  if (chain.serializer == CodecChain::Serializer::kSharding)
    fail(ErrorCode::kInternal, "a shard is encoded from its inner chunks");
  if (chain.serializer == CodecChain::Serializer::kZfp) {
    scratch = zfp_encode(elements, encoded_shape(shape, order), type, chain.zfp_tolerance);
    elements = scratch;
  } else if (chain.big_endian) {
    if (order.empty()) scratch.assign(elements.begin(), elements.end());
    swap_bytes(scratch, type);
    elements = scratch;
  }
  for (const BytesCodec& codec : chain.bytes_codecs) {
    scratch = encode_bytes(codec, elements, type.size);
    elements = scratch;
  }
  if (scratch.empty()) scratch.assign(elements.begin(), elements.end());
  return scratch;
}

int64_t element_count(std::span<const int64_t> shape) {
  constexpr int64_t kLimit = int64_t{1} << 62;
  int64_t count = 1;
  for (const int64_t n : shape) {
    if (n < 0) fail(ErrorCode::kCorrupt, "a shape with the negative size {}", n);
    if (n > 0 && count > kLimit / n)
      fail(ErrorCode::kCorrupt, "a shape with more than 2^62 elements");
    count *= n;
  }
  return count;
}

void copy_box(const std::byte* source, std::span<const int64_t> source_shape,
              std::span<const int64_t> source_origin, std::byte* target,
              std::span<const int64_t> target_shape, std::span<const int64_t> target_origin,
              std::span<const int64_t> extent, size_t size) {
  const size_t rank = extent.size();
  if (rank == 0) {
    std::memcpy(target, source, size);
    return;
  }
  for (const int64_t n : extent)
    if (n <= 0) return;
  // Axes that are whole on both sides join the row that one memcpy moves.
  size_t row_axis = rank - 1;
  size_t row = size * static_cast<size_t>(extent[row_axis]);
  while (row_axis > 0 && extent[row_axis] == source_shape[row_axis] &&
         extent[row_axis] == target_shape[row_axis]) {
    --row_axis;
    row *= static_cast<size_t>(extent[row_axis]);
  }
  std::vector<int64_t> index(rank, 0);
  const size_t inner = rank - row_axis;
  do {
    int64_t from = 0, to = 0;
    for (size_t axis = 0; axis < rank; ++axis) {
      from = from * source_shape[axis] + source_origin[axis] + index[axis];
      to = to * target_shape[axis] + target_origin[axis] + index[axis];
    }
    std::memcpy(target + static_cast<size_t>(to) * size, source + static_cast<size_t>(from) * size,
                row);
  } while (advance(index, extent, inner));
}

void fill_elements(Out out, In fill) {
  if (std::all_of(fill.begin(), fill.end(), [&](std::byte b) { return b == fill[0]; })) {
    if (!out.empty()) std::memset(out.data(), std::to_integer<int>(fill[0]), out.size());
    return;
  }
  for (size_t at = 0; at + fill.size() <= out.size(); at += fill.size())
    std::memcpy(out.data() + at, fill.data(), fill.size());
}

}  // namespace craton::volume::zarr
