#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "craton/volume/zarr/codec.h"
#include "craton/volume/zarr/data_type.h"

namespace craton::volume::zarr {

/// A chunk that decodes to more than this is refused: it could not be read in bounded memory.
constexpr int64_t kMaxChunkBytes = int64_t{1} << 30;

/// What an array's metadata document says, checked: shapes fit together and nothing overflows.
struct ArrayMetadata {
  int format = 3;  ///< 2 or 3
  std::vector<int64_t> shape;
  std::vector<int64_t>
      object_shape;  ///< elements per object: the chunk, or the shard that holds several
  DataType type;
  Bytes fill;                 ///< one element, little-endian
  bool fill_is_null = false;  ///< v2 "null": undefined, read as zeros
  CodecChain codecs;
  bool v2_keys = false;  ///< "0.0" instead of "c/0/0"
  char separator = '/';
  std::vector<std::string> dimension_names;  ///< empty, or one per axis; "" where the axis has none
  nlohmann::json attributes = nlohmann::json::object();

  size_t rank() const { return shape.size(); }
  /// True when inner chunks of a shard can be read by themselves.
  bool has_inner_chunks() const;
  /// Elements that decode together: the inner chunk of a shard, else the chunk.
  const std::vector<int64_t>& chunk_shape() const;
  /// Key of an object relative to the array: "c/0/1", "0.1", ...
  std::string object_key(std::span<const int64_t> index) const;
};

/// Text to JSON; kCorrupt with `name` where it is none or nests too deep to be metadata. Bare NaN
/// and Infinity, which Python's json module writes, become the strings "NaN" and "Infinity".
nlohmann::json parse_json(std::span<const std::byte> bytes, std::string_view name);

/// A v3 zarr.json with node_type "array". kCorrupt or kUnsupported say what and name `name`.
ArrayMetadata parse_array_v3(const nlohmann::json& document, std::string_view name);
/// A v2 .zarray and its .zattrs (null = none).
ArrayMetadata parse_array_v2(const nlohmann::json& zarray, const nlohmann::json& zattrs,
                             std::string_view name);

nlohmann::json to_json_v3(const ArrayMetadata& metadata);
/// The .zarray; attributes and dimension names go to the .zattrs.
nlohmann::json to_json_v2(const ArrayMetadata& metadata);
nlohmann::json attributes_to_json_v2(const ArrayMetadata& metadata);

}  // namespace craton::volume::zarr
