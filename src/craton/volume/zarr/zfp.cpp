#include "craton/volume/zarr/zfp.h"

#include <algorithm>
#include <limits>
#include <memory>

#include "craton/base/error.h"
#ifdef CRATON_HAS_ZFP
#include <zfp.h>
#endif

namespace craton::volume::zarr {

#ifdef CRATON_HAS_ZFP

namespace {

zfp_type type_of(const DataType& type) {
  if (type.kind == Kind::kFloat && type.size == 4) return zfp_type_float;
  if (type.kind == Kind::kFloat && type.size == 8) return zfp_type_double;
  if (type.kind == Kind::kInt && type.size == 4) return zfp_type_int32;
  if (type.kind == Kind::kInt && type.size == 8) return zfp_type_int64;
  fail(ErrorCode::kUnsupported, "zfp does not hold elements of type {}", type.name());
}

struct FreeField {
  void operator()(zfp_field* field) const { zfp_field_free(field); }
};
struct CloseStream {
  void operator()(zfp_stream* stream) const { zfp_stream_close(stream); }
};
struct CloseBits {
  void operator()(bitstream* bits) const { stream_close(bits); }
};
using FieldHandle = std::unique_ptr<zfp_field, FreeField>;
using StreamHandle = std::unique_ptr<zfp_stream, CloseStream>;
using BitsHandle = std::unique_ptr<bitstream, CloseBits>;

/// zfp has at most 4 axes, x fastest. Axes of size 1 are left out until it fits.
std::vector<size_t> sides_of(std::span<const int64_t> shape) {
  std::vector<size_t> sides(shape.begin(), shape.end());
  while (sides.size() > 4) {
    const auto one = std::find(sides.begin(), sides.end(), 1u);
    if (one == sides.end())
      fail(ErrorCode::kUnsupported, "zfp holds at most 4 axes, the chunk has {}", sides.size());
    sides.erase(one);
  }
  if (sides.empty()) sides.push_back(1);
  std::reverse(sides.begin(), sides.end());
  return sides;
}

FieldHandle make_field(const void* data, const std::vector<size_t>& sides, zfp_type type) {
  FieldHandle field(zfp_field_alloc());
  zfp_field_set_pointer(field.get(), const_cast<void*>(data));
  zfp_field_set_type(field.get(), type);
  field->nx = sides[0];
  field->ny = sides.size() > 1 ? sides[1] : 0;
  field->nz = sides.size() > 2 ? sides[2] : 0;
  field->nw = sides.size() > 3 ? sides[3] : 0;
  return field;
}

std::vector<size_t> long_sides(const zfp_field& field) {
  std::vector<size_t> out;
  for (const size_t side : {field.nx, field.ny, field.nz, field.nw})
    if (side > 1) out.push_back(side);
  return out;
}

}  // namespace

bool zfp_is_available() { return true; }

void zfp_decode(std::span<const std::byte> in, std::span<const int64_t> shape, const DataType& type,
                std::span<std::byte> out) {
  const zfp_type expected = type_of(type);
  FieldHandle field = make_field(out.data(), sides_of(shape), expected);
  StreamHandle stream(zfp_stream_open(nullptr));
  // The library does not look where its input ends: it gets a copy padded with zeros to the most
  // bytes it can ever consume.
  zfp_stream_set_reversible(stream.get());
  const size_t bound = zfp_stream_maximum_size(stream.get(), field.get());
  std::vector<std::byte> padded(std::max(in.size(), 2 * bound + out.size()) + 4096);
  std::copy(in.begin(), in.end(), padded.begin());
  BitsHandle bits(stream_open(padded.data(), padded.size()));
  zfp_stream_set_bit_stream(stream.get(), bits.get());
  zfp_stream_rewind(stream.get());
  FieldHandle found(zfp_field_alloc());
  if (zfp_read_header(stream.get(), found.get(), ZFP_HEADER_FULL) == 0)
    fail(ErrorCode::kCorrupt, "zfp data without a header that zfp {} reads", zfp_version_string);
  if (found->type != expected || long_sides(*found) != long_sides(*field))
    fail(ErrorCode::kCorrupt, "zfp data of another type or shape than the array's chunks");
  const size_t most = zfp_stream_maximum_size(stream.get(), field.get());
  if (most > padded.size())
    fail(ErrorCode::kCorrupt, "zfp data that claim up to {} bytes for {}", most, out.size());
  zfp_field_set_pointer(found.get(), out.data());
  if (zfp_decompress(stream.get(), found.get()) == 0)
    fail(ErrorCode::kCorrupt, "zfp data do not decode");
}

std::vector<std::byte> zfp_encode(std::span<const std::byte> elements,
                                  std::span<const int64_t> shape, const DataType& type,
                                  double tolerance) {
  const FieldHandle field = make_field(elements.data(), sides_of(shape), type_of(type));
  const StreamHandle stream(zfp_stream_open(nullptr));
  zfp_stream_set_accuracy(stream.get(), tolerance);
  std::vector<std::byte> out(zfp_stream_maximum_size(stream.get(), field.get()));
  const BitsHandle bits(stream_open(out.data(), out.size()));
  zfp_stream_set_bit_stream(stream.get(), bits.get());
  zfp_stream_rewind(stream.get());
  if (zfp_write_header(stream.get(), field.get(), ZFP_HEADER_FULL) == 0 ||
      zfp_compress(stream.get(), field.get()) == 0)
    fail(ErrorCode::kInternal, "zfp could not encode a chunk");
  zfp_stream_flush(stream.get());
  out.resize(stream_size(bits.get()));
  return out;
}

#else

bool zfp_is_available() { return false; }

void zfp_decode(std::span<const std::byte>, std::span<const int64_t>, const DataType&,
                std::span<std::byte>) {
  fail(ErrorCode::kUnsupported, "zfp: this build lacks libzfp; install libzfp-dev and build again");
}

std::vector<std::byte> zfp_encode(std::span<const std::byte>, std::span<const int64_t>,
                                  const DataType&, double) {
  fail(ErrorCode::kUnsupported, "zfp: this build lacks libzfp; install libzfp-dev and build again");
}

#endif

}  // namespace craton::volume::zarr
