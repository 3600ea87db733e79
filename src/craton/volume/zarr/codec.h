#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "craton/volume/zarr/data_type.h"

namespace craton::volume::zarr {

using Bytes = std::vector<std::byte>;

/// bytes -> bytes: a compressor or a checksum.
struct BytesCodec {
  enum class Id {
    kBlosc,
    kZstd,
    kGzip,
    kZlib,
    kLz4,
    kBz2,
    kShuffle,
    kCrc32c,
    kCrc32,
    kAdler32,
    kFletcher32
  };
  Id id = Id::kBlosc;
  std::string name;            ///< as in the metadata, for messages
  std::string inner = "zstd";  ///< blosc's compressor
  int level = 5;
  int shuffle = 1;            ///< blosc: 0 none, 1 byte, 2 bit
  uint32_t element_size = 0;  ///< blosc and shuffle: 0 = the array's
  uint32_t block_size = 0;
  bool checksum_first = false;  ///< Zarr v2 puts some checksums in front
};

struct Sharding;

/// How the elements of one chunk become the bytes of one object; applied in this order to encode,
/// reversed to decode.
struct CodecChain {
  enum class Serializer { kBytes, kZfp, kSharding };

  std::vector<std::vector<int>> transposes;  ///< encoded axis i is input axis order[i]
  Serializer serializer = Serializer::kBytes;
  bool big_endian = false;  ///< kBytes
  double zfp_tolerance =
      0;  ///< kZfp, fixed accuracy (encoding); a stream says itself how to decode it
  std::shared_ptr<const Sharding> sharding;
  std::vector<BytesCodec> bytes_codecs;
};

struct Sharding {
  std::vector<int64_t> chunk_shape;  ///< of the inner chunks
  CodecChain inner, index;
  bool index_at_start = false;
};

/// The `codecs` of a v3 array whose chunks have `chunk_shape`. Throws kUnsupported or kCorrupt with
/// the codec's name.
CodecChain parse_codecs_v3(const nlohmann::json& codecs, std::span<const int64_t> chunk_shape,
                           const DataType& type);
/// `compressor`, `filters`, `order` of a v2 array.
CodecChain parse_codecs_v2(const nlohmann::json& array, size_t rank, const DataType& type);
nlohmann::json codecs_to_json_v3(const CodecChain& chain, const DataType& type);
/// `compressor` of a v2 array; the chain may hold one at most.
nlohmann::json compressor_to_json_v2(const CodecChain& chain);

/// Decodes one chunk into `out`, which has exactly the bytes of `shape` elements (little-endian, C
/// order). Never writes or allocates past what `shape` implies; kCorrupt when the bytes do not
/// decode to exactly that. Absent inner chunks of a shard become `fill`.
void decode_chunk(const CodecChain& chain, std::span<const std::byte> encoded,
                  std::span<const int64_t> shape, const DataType& type,
                  std::span<const std::byte> fill, std::span<std::byte> out);

/// Encodes one chunk (not for kSharding, see encode_shard).
Bytes encode_chunk(const CodecChain& chain, std::span<const std::byte> elements,
                   std::span<const int64_t> shape, const DataType& type);

/// One bytes -> bytes step. `out` is the largest size that is accepted; returns the size that came
/// out.
size_t decode_bytes(const BytesCodec& codec, std::span<const std::byte> in,
                    std::span<std::byte> out);
Bytes encode_bytes(const BytesCodec& codec, std::span<const std::byte> in, uint32_t element_size);

uint32_t crc32c(std::span<const std::byte> bytes);

/// Product of the shape, kCorrupt beyond 2^62 or for negative sizes.
int64_t element_count(std::span<const int64_t> shape);

/// Copies the box of `extent` elements of `size` bytes from `source` (C order, `source_shape`, at
/// `source_origin`) to `target`.
void copy_box(const std::byte* source, std::span<const int64_t> source_shape,
              std::span<const int64_t> source_origin, std::byte* target,
              std::span<const int64_t> target_shape, std::span<const int64_t> target_origin,
              std::span<const int64_t> extent, size_t size);
/// Sets `count` elements to `fill`.
void fill_elements(std::span<std::byte> out, std::span<const std::byte> fill);

}  // namespace craton::volume::zarr
