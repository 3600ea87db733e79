#include <blosc.h>
#include <bzlib.h>
#include <lz4.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <memory>

#include "craton/base/error.h"
#include "craton/volume/zarr/codec.h"

namespace craton::volume::zarr {

namespace {

using In = std::span<const std::byte>;
using Out = std::span<std::byte>;

uint32_t load_u32(const std::byte* at) {
  uint32_t value;
  std::memcpy(&value, at, 4);
  return value;
}

void store_u32(Bytes& out, uint32_t value) {
  const size_t at = out.size();
  out.resize(at + 4);
  std::memcpy(out.data() + at, &value, 4);
}

[[noreturn]] void corrupt(const BytesCodec& codec, const std::string& why) {
  fail(ErrorCode::kCorrupt, "{} data are damaged: {}", codec.name, why);
}

[[noreturn]] void too_large(const BytesCodec& codec, uint64_t found, uint64_t allowed) {
  corrupt(codec, fmt::format("they decode to {} bytes, at most {} are expected", found, allowed));
}

// --- blosc: a header of 16 bytes is checked before the library sees the frame.

size_t decode_blosc(const BytesCodec& codec, In in, Out out) {
  if (in.size() < BLOSC_MIN_HEADER_LENGTH)
    corrupt(codec, fmt::format("{} bytes are shorter than the header", in.size()));
  const auto version = std::to_integer<unsigned>(in[0]);
  const uint32_t decoded = load_u32(in.data() + 4), block = load_u32(in.data() + 8),
                 encoded = load_u32(in.data() + 12);
  if (version == 0 || version > BLOSC_VERSION_FORMAT)
    corrupt(codec, fmt::format("format version {} in the header", version));
  if (encoded != in.size())
    corrupt(codec, fmt::format("the header says {} bytes, there are {}", encoded, in.size()));
  if (decoded > out.size() || decoded > BLOSC_MAX_BUFFERSIZE) too_large(codec, decoded, out.size());
  if (decoded > 0 && (block == 0 || block > decoded))
    corrupt(codec, fmt::format("block size {} of {} bytes", block, decoded));
  const int got = blosc_decompress_ctx(in.data(), out.data(), decoded, 1);
  if (got < 0 || static_cast<uint32_t>(got) != decoded)
    corrupt(codec, fmt::format("the decoder stopped with {}", got));
  return decoded;
}

Bytes encode_blosc(const BytesCodec& codec, In in, uint32_t element_size) {
  if (in.size() > BLOSC_MAX_BUFFERSIZE)
    fail(ErrorCode::kInvalidArgument, "blosc cannot hold a chunk of {} bytes", in.size());
  Bytes out(in.size() + BLOSC_MAX_OVERHEAD);
  const size_t size = codec.element_size != 0 ? codec.element_size : element_size;
  const int got = blosc_compress_ctx(
      codec.level, codec.shuffle, size <= BLOSC_MAX_TYPESIZE ? size : 1, in.size(), in.data(),
      out.data(), out.size(), codec.inner.c_str(), codec.block_size, 1);
  if (got <= 0)
    fail(ErrorCode::kUnsupported, "blosc cannot compress with \"{}\" (code {})", codec.inner, got);
  out.resize(static_cast<size_t>(got));
  return out;
}

size_t decode_zstd(const BytesCodec& codec, In in, Out out) {
  struct Free {
    void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
  };
  thread_local std::unique_ptr<ZSTD_DCtx, Free> context(ZSTD_createDCtx());
  const size_t got =
      ZSTD_decompressDCtx(context.get(), out.data(), out.size(), in.data(), in.size());
  if (ZSTD_isError(got)) corrupt(codec, ZSTD_getErrorName(got));
  return got;
}

Bytes encode_zstd(const BytesCodec& codec, In in) {
  Bytes out(ZSTD_compressBound(in.size()));
  const size_t got = ZSTD_compress(out.data(), out.size(), in.data(), in.size(), codec.level);
  if (ZSTD_isError(got)) fail(ErrorCode::kInternal, "zstd: {}", ZSTD_getErrorName(got));
  out.resize(got);
  return out;
}

// --- gzip and zlib: one inflater that accepts either header; a gzip object may have several
// members.

size_t decode_deflate(const BytesCodec& codec, In in, Out out) {
  constexpr size_t kPart = std::numeric_limits<uInt>::max() / 2;
  z_stream stream{};
  if (inflateInit2(&stream, 15 + 32) != Z_OK)
    fail(ErrorCode::kResourceExhausted, "no memory for zlib");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> guard(&stream, inflateEnd);
  size_t read = 0, written = 0;
  while (true) {
    const size_t room = std::min(out.size() - written, kPart),
                 left = std::min(in.size() - read, kPart);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(in.data() + read));
    stream.avail_in = static_cast<uInt>(left);
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + written);
    stream.avail_out = static_cast<uInt>(room);
    const int code = inflate(&stream, Z_NO_FLUSH);
    const size_t consumed = left - stream.avail_in, produced = room - stream.avail_out;
    read += consumed;
    written += produced;
    if (code == Z_STREAM_END) {
      if (read == in.size() || inflateReset(&stream) != Z_OK) return written;
      continue;
    }
    if (code != Z_OK && code != Z_BUF_ERROR)
      corrupt(codec, stream.msg != nullptr ? stream.msg : "no zlib stream");
    if (consumed == 0 && produced == 0) {
      if (written == out.size()) too_large(codec, written + 1, out.size());
      corrupt(codec, "the stream ends early");
    }
  }
}

Bytes encode_deflate(const BytesCodec& codec, In in) {
  z_stream stream{};
  const int window = codec.id == BytesCodec::Id::kGzip ? 15 + 16 : 15;
  if (deflateInit2(&stream, std::clamp(codec.level, -1, 9), Z_DEFLATED, window, 8,
                   Z_DEFAULT_STRATEGY) != Z_OK)
    fail(ErrorCode::kResourceExhausted, "no memory for zlib");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> guard(&stream, deflateEnd);
  if (in.size() > std::numeric_limits<uInt>::max() / 2)
    fail(ErrorCode::kInvalidArgument, "a chunk too large for {}", codec.name);
  Bytes out(deflateBound(&stream, in.size()) + 32);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(in.data()));
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  if (deflate(&stream, Z_FINISH) != Z_STREAM_END) fail(ErrorCode::kInternal, "zlib did not finish");
  out.resize(out.size() - stream.avail_out);
  return out;
}

// --- lz4 as numcodecs writes it: the decoded length in 4 bytes, then one block.

size_t decode_lz4(const BytesCodec& codec, In in, Out out) {
  if (in.size() < 4) corrupt(codec, "no length prefix");
  const uint32_t decoded = load_u32(in.data());
  if (decoded > out.size()) too_large(codec, decoded, out.size());
  if (in.size() - 4 > LZ4_MAX_INPUT_SIZE || decoded > LZ4_MAX_INPUT_SIZE)
    corrupt(codec, "a block over the format's limit");
  const int got = LZ4_decompress_safe(reinterpret_cast<const char*>(in.data() + 4),
                                      reinterpret_cast<char*>(out.data()),
                                      static_cast<int>(in.size() - 4), static_cast<int>(decoded));
  if (got < 0 || static_cast<uint32_t>(got) != decoded) corrupt(codec, "not an lz4 block");
  return decoded;
}

Bytes encode_lz4(In in) {
  if (in.size() > LZ4_MAX_INPUT_SIZE)
    fail(ErrorCode::kInvalidArgument, "a chunk too large for lz4");
  Bytes out;
  store_u32(out, static_cast<uint32_t>(in.size()));
  out.resize(4 + static_cast<size_t>(LZ4_compressBound(static_cast<int>(in.size()))));
  const int got = LZ4_compress_default(
      reinterpret_cast<const char*>(in.data()), reinterpret_cast<char*>(out.data() + 4),
      static_cast<int>(in.size()), static_cast<int>(out.size() - 4));
  out.resize(4 + static_cast<size_t>(got));
  return out;
}

size_t decode_bz2(const BytesCodec& codec, In in, Out out) {
  if (in.size() > std::numeric_limits<unsigned>::max() ||
      out.size() > std::numeric_limits<unsigned>::max())
    fail(ErrorCode::kUnsupported, "a bz2 chunk over 4 GiB");
  auto size = static_cast<unsigned>(out.size());
  const int code =
      BZ2_bzBuffToBuffDecompress(reinterpret_cast<char*>(out.data()), &size,
                                 const_cast<char*>(reinterpret_cast<const char*>(in.data())),
                                 static_cast<unsigned>(in.size()), 0, 0);
  if (code == BZ_OUTBUFF_FULL) too_large(codec, out.size() + 1, out.size());
  if (code != BZ_OK) corrupt(codec, fmt::format("code {}", code));
  return size;
}

Bytes encode_bz2(const BytesCodec& codec, In in) {
  if (in.size() > (1u << 31)) fail(ErrorCode::kInvalidArgument, "a chunk too large for bz2");
  auto size = static_cast<unsigned>(in.size() + in.size() / 100 + 601);
  Bytes out(size);
  const int code = BZ2_bzBuffToBuffCompress(
      reinterpret_cast<char*>(out.data()), &size,
      const_cast<char*>(reinterpret_cast<const char*>(in.data())), static_cast<unsigned>(in.size()),
      std::clamp(codec.level, 1, 9), 0, 0);
  if (code != BZ_OK) fail(ErrorCode::kInternal, "bz2: code {}", code);
  out.resize(size);
  return out;
}

void shuffle(In in, Out out, size_t element_size, bool forward) {
  const size_t count = element_size == 0 ? 0 : in.size() / element_size;
  for (size_t i = 0; i < count; ++i)
    for (size_t k = 0; k < element_size; ++k) {
      const size_t plain = i * element_size + k, planes = k * count + i;
      out[forward ? planes : plain] = in[forward ? plain : planes];
    }
  const size_t done = count * element_size;
  if (done < in.size()) std::memcpy(out.data() + done, in.data() + done, in.size() - done);
}

uint32_t fletcher32(In bytes) {
  // HDF5's variant: big-endian 16-bit words, sums folded with end-around carry. Unlike a remainder,
  // a fold of what is not zero is never zero.
  const auto fold = [](uint32_t sum) { return (sum & 0xffff) + (sum >> 16); };
  uint32_t low = 0, high = 0;
  for (size_t i = 0; i < bytes.size(); i += 2) {
    uint32_t word = std::to_integer<uint32_t>(bytes[i]) << 8;
    if (i + 1 < bytes.size()) word |= std::to_integer<uint32_t>(bytes[i + 1]);
    low = fold(low + word);
    high = fold(high + low);
  }
  return high << 16 | low;
}

uint32_t checksum(const BytesCodec& codec, In bytes) {
  const auto* data = reinterpret_cast<const Bytef*>(bytes.data());
  switch (codec.id) {
    case BytesCodec::Id::kCrc32c:
      return crc32c(bytes);
    case BytesCodec::Id::kCrc32:
      return static_cast<uint32_t>(crc32_z(0, data, bytes.size()));
    case BytesCodec::Id::kAdler32:
      return static_cast<uint32_t>(adler32_z(1, data, bytes.size()));
    default:
      return fletcher32(bytes);
  }
}

size_t decode_checksum(const BytesCodec& codec, In in, Out out) {
  if (in.size() < 4) corrupt(codec, "shorter than the checksum");
  const In body = codec.checksum_first ? in.subspan(4) : in.first(in.size() - 4);
  const uint32_t said = load_u32(codec.checksum_first ? in.data() : in.data() + body.size());
  const uint32_t found = checksum(codec, body);
  if (said != found)
    corrupt(codec, fmt::format("checksum {:08x}, the bytes have {:08x}", said, found));
  if (body.size() > out.size()) too_large(codec, body.size(), out.size());
  if (!body.empty()) std::memcpy(out.data(), body.data(), body.size());
  return body.size();
}

Bytes encode_checksum(const BytesCodec& codec, In in) {
  Bytes out;
  out.reserve(in.size() + 4);
  if (codec.checksum_first) store_u32(out, checksum(codec, in));
  out.insert(out.end(), in.begin(), in.end());
  if (!codec.checksum_first) store_u32(out, checksum(codec, in));
  return out;
}

}  // namespace

uint32_t crc32c(std::span<const std::byte> bytes) {
  static const auto table = [] {
    std::array<uint32_t, 256> made{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t word = i;
      for (int bit = 0; bit < 8; ++bit)
        word = word >> 1 ^ (word & 1 ? 0x82f63b78u : 0);  // 0x1EDC6F41 reflected
      made[i] = word;
    }
    return made;
  }();
  uint32_t crc = ~0u;
  for (const std::byte b : bytes)
    crc = crc >> 8 ^ table[(crc ^ std::to_integer<uint32_t>(b)) & 255];
  return ~crc;
}

size_t decode_bytes(const BytesCodec& codec, In in, Out out) {
  using Id = BytesCodec::Id;
  switch (codec.id) {
    case Id::kBlosc:
      return decode_blosc(codec, in, out);
    case Id::kZstd:
      return decode_zstd(codec, in, out);
    case Id::kGzip:
    case Id::kZlib:
      return decode_deflate(codec, in, out);
    case Id::kLz4:
      return decode_lz4(codec, in, out);
    case Id::kBz2:
      return decode_bz2(codec, in, out);
    case Id::kShuffle:
      if (in.size() > out.size()) too_large(codec, in.size(), out.size());
      shuffle(in, out, codec.element_size, false);
      return in.size();
    case Id::kCrc32c:
    case Id::kCrc32:
    case Id::kAdler32:
    case Id::kFletcher32:
      return decode_checksum(codec, in, out);
  }
  fail(ErrorCode::kInternal, "codec {}", codec.name);
}

Bytes encode_bytes(const BytesCodec& codec, In in, uint32_t element_size) {
  using Id = BytesCodec::Id;
  switch (codec.id) {
    case Id::kBlosc:
      return encode_blosc(codec, in, element_size);
    case Id::kZstd:
      return encode_zstd(codec, in);
    case Id::kGzip:
    case Id::kZlib:
      return encode_deflate(codec, in);
    case Id::kLz4:
      return encode_lz4(in);
    case Id::kBz2:
      return encode_bz2(codec, in);
    case Id::kShuffle: {
      Bytes out(in.size());
      shuffle(in, out, codec.element_size, true);
      return out;
    }
    case Id::kCrc32c:
    case Id::kCrc32:
    case Id::kAdler32:
    case Id::kFletcher32:
      return encode_checksum(codec, in);
  }
  fail(ErrorCode::kInternal, "codec {}", codec.name);
}

}  // namespace craton::volume::zarr
