#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "craton/base/error.h"
#include "craton/volume/zarr/codec.h"

namespace craton::volume::zarr {

using nlohmann::json;
using Id = BytesCodec::Id;

namespace {

struct NamedId {
  std::string_view name;
  Id id;
};
constexpr NamedId kBytesCodecs[] = {
    {"blosc", Id::kBlosc},
    {"zstd", Id::kZstd},
    {"gzip", Id::kGzip},
    {"zlib", Id::kZlib},
    {"lz4", Id::kLz4},
    {"bz2", Id::kBz2},
    {"shuffle", Id::kShuffle},
    {"crc32c", Id::kCrc32c},
    {"crc32", Id::kCrc32},
    {"adler32", Id::kAdler32},
    {"fletcher32", Id::kFletcher32},
};
constexpr std::string_view kBloscInner[] = {"blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"};

std::optional<Id> find_bytes_codec(std::string_view name) {
  for (const NamedId& entry : kBytesCodecs)
    if (entry.name == name) return entry.id;
  return std::nullopt;
}

[[noreturn]] void bad_codec(const std::string& name, const std::string& why) {
  fail(ErrorCode::kCorrupt, "codec \"{}\": {}", name, why);
}

int shuffle_number(const json& value, const std::string& name) {
  if (value.is_number_integer()) {
    const int n = value.get<int>();
    if (n == -1) return 1;  // numcodecs: by element size; either decodes alike
    if (n >= 0 && n <= 2) return n;
  }
  if (value == "noshuffle") return 0;
  if (value == "shuffle") return 1;
  if (value == "bitshuffle") return 2;
  bad_codec(name,
            fmt::format("shuffle {} is none of noshuffle, shuffle, bitshuffle", value.dump()));
}

/// `options` is the v3 configuration or the v2 object; both spell the options alike.
BytesCodec parse_bytes_codec(const std::string& name, Id id, const json& options,
                             const DataType& type) {
  BytesCodec codec{id, name};
  codec.level = options.value("level", options.value("clevel", 5));
  codec.checksum_first = id == Id::kAdler32 || id == Id::kCrc32;
  if (options.contains("location")) codec.checksum_first = options["location"] == "start";
  if (id == Id::kShuffle) {
    codec.element_size = options.value("elementsize", 4u);
    if (codec.element_size == 0 || codec.element_size > (1 << 20))
      bad_codec(name, "elementsize out of range");
  }
  if (id != Id::kBlosc) return codec;
  codec.inner = options.value("cname", options.value("algorithm", std::string("lz4")));
  if (std::ranges::find(kBloscInner, codec.inner) == std::end(kBloscInner))
    fail(ErrorCode::kUnsupported, "blosc compressor \"{}\" is not handled", codec.inner);
  codec.level = std::clamp(codec.level, 0, 9);
  codec.shuffle = options.contains("shuffle") ? shuffle_number(options["shuffle"], name) : 1;
  const json element_size = options.value("typesize", json());
  codec.element_size = element_size.is_number_unsigned() ? element_size.get<uint32_t>() : type.size;
  codec.block_size = options.value("blocksize", 0u);
  return codec;
}

struct NamedCodec {
  std::string name;
  json configuration;
};

NamedCodec split(const json& item) {
  if (item.is_string()) return {item.get<std::string>(), json::object()};
  if (!item.is_object() || !item.contains("name"))
    fail(ErrorCode::kCorrupt, "codecs: {} has no name", item.dump().substr(0, 80));
  json configuration = item.value("configuration", json::object());
  if (configuration.is_null()) configuration = json::object();
  return {item["name"].get<std::string>(), std::move(configuration)};
}

std::vector<int> parse_order(const json& value, size_t rank) {
  if (value == "C") return {};
  std::vector<int> order;
  if (value == "F") {
    for (size_t i = rank; i-- > 0;) order.push_back(static_cast<int>(i));
    return order;
  }
  order = value.get<std::vector<int>>();
  std::vector<int> sorted = order;
  std::ranges::sort(sorted);
  for (size_t i = 0; i < sorted.size(); ++i)
    if (sorted[i] != static_cast<int>(i))
      bad_codec("transpose", fmt::format("order {} is no permutation", value.dump()));
  if (order.size() != rank)
    bad_codec("transpose", fmt::format("order {} for {} axes", value.dump(), rank));
  return order;
}

std::shared_ptr<const Sharding> parse_sharding(const json& options,
                                               std::span<const int64_t> shard_shape,
                                               const DataType& type) {
  static const DataType kIndexType{Kind::kUint, 8};
  auto sharding = std::make_shared<Sharding>();
  sharding->chunk_shape = options.at("chunk_shape").get<std::vector<int64_t>>();
  if (sharding->chunk_shape.size() != shard_shape.size())
    bad_codec("sharding_indexed", "chunk_shape has another number of axes");
  std::vector<int64_t> index_shape;
  for (size_t i = 0; i < shard_shape.size(); ++i) {
    const int64_t inner = sharding->chunk_shape[i];
    if (inner <= 0 || shard_shape[i] % inner != 0)
      bad_codec(
          "sharding_indexed",
          fmt::format("inner chunk size {} does not divide the shard's {}", inner, shard_shape[i]));
    index_shape.push_back(shard_shape[i] / inner);
  }
  index_shape.push_back(2);
  sharding->inner = parse_codecs_v3(options.at("codecs"), sharding->chunk_shape, type);
  const json index = options.value(
      "index_codecs",
      json::parse(R"([{"name":"bytes","configuration":{"endian":"little"}},"crc32c"])"));
  sharding->index = parse_codecs_v3(index, index_shape, kIndexType);
  bool fixed = sharding->index.serializer == CodecChain::Serializer::kBytes &&
               sharding->index.transposes.empty();
  for (const BytesCodec& codec : sharding->index.bytes_codecs)
    fixed = fixed && codec.id >= Id::kCrc32c;
  if (!fixed)
    fail(ErrorCode::kUnsupported,
         "sharding_indexed: index_codecs other than bytes and checksums are not handled");
  const std::string location = options.value("index_location", "end");
  if (location != "end" && location != "start")
    bad_codec("sharding_indexed", "index_location is neither start nor end");
  sharding->index_at_start = location == "start";
  return sharding;
}

void parse_zfp(CodecChain& chain, const json& options) {
  chain.serializer = CodecChain::Serializer::kZfp;
  chain.zfp_tolerance = options.value("tolerance", 0.0);
}

}  // namespace

CodecChain parse_codecs_v3(const json& codecs, std::span<const int64_t> chunk_shape,
                           const DataType& type) {
  CodecChain chain;
  bool serialized = false;
  if (!codecs.is_array() || codecs.empty()) fail(ErrorCode::kCorrupt, "codecs: expected a list");
  for (const json& item : codecs) {
    auto [name, options] = split(item);
    std::string plain = name.starts_with("numcodecs.") ? name.substr(10) : name;
    const auto bytes_id = find_bytes_codec(plain);
    if (plain == "transpose" && !serialized) {
      auto order = parse_order(options.at("order"), chunk_shape.size());
      if (!order.empty()) chain.transposes.push_back(std::move(order));
    } else if ((plain == "bytes" || plain == "endian") && !serialized) {
      serialized = true;
      const std::string endian = options.value("endian", "little");
      if (endian != "little" && endian != "big")
        bad_codec(name, fmt::format("endian \"{}\"", endian));
      chain.big_endian = endian == "big";
    } else if (plain == "zfpy" && !serialized) {
      serialized = true;
      parse_zfp(chain, options);
    } else if (plain == "sharding_indexed" && !serialized) {
      serialized = true;
      std::vector<int64_t> shape(chunk_shape.begin(), chunk_shape.end());
      for (const auto& order : chain.transposes) {
        std::vector<int64_t> next;
        for (const int axis : order) next.push_back(shape[static_cast<size_t>(axis)]);
        shape = std::move(next);
      }
      chain.sharding = parse_sharding(options, shape, type);
      chain.serializer = CodecChain::Serializer::kSharding;
    } else if (bytes_id && serialized) {
      chain.bytes_codecs.push_back(parse_bytes_codec(name, *bytes_id, options, type));
    } else if (bytes_id || plain == "transpose" || plain == "bytes" || plain == "zfpy" ||
               plain == "sharding_indexed") {
      bad_codec(name,
                "out of order: expected array to array, one array to bytes, then bytes to bytes");
    } else {
      fail(ErrorCode::kUnsupported, "codec \"{}\" is not handled", name.substr(0, 60));
    }
  }
  if (!serialized) fail(ErrorCode::kCorrupt, "codecs: no array to bytes codec");
  return chain;
}

CodecChain parse_codecs_v2(const json& array, size_t rank, const DataType& type) {
  CodecChain chain;
  chain.big_endian = type.big_endian;
  auto order = parse_order(array.value("order", json("C")), rank);
  if (!order.empty()) chain.transposes.push_back(std::move(order));
  std::vector<json> steps;
  const json filters = array.value("filters", json());
  if (filters.is_array()) steps.assign(filters.begin(), filters.end());
  if (array.contains("compressor") && !array["compressor"].is_null())
    steps.push_back(array["compressor"]);
  for (const json& step : steps) {
    const std::string name = step.at("id").get<std::string>();
    const auto id = find_bytes_codec(name);
    if (name == "zfpy" && chain.bytes_codecs.empty() &&
        chain.serializer == CodecChain::Serializer::kBytes) {
      parse_zfp(chain, step);
    } else if (id) {
      chain.bytes_codecs.push_back(parse_bytes_codec(name, *id, step, type));
    } else {
      fail(ErrorCode::kUnsupported, "codec \"{}\" is not handled", name.substr(0, 60));
    }
  }
  return chain;
}

namespace {

json bytes_codec_to_json(const BytesCodec& codec, const DataType& type) {
  static constexpr const char* kShuffles[] = {"noshuffle", "shuffle", "bitshuffle"};
  const std::string numcodecs =
      codec.name.starts_with("numcodecs.") ? codec.name : "numcodecs." + codec.name;
  switch (codec.id) {
    case Id::kBlosc:
      return {{"name", "blosc"},
              {"configuration",
               {{"cname", codec.inner},
                {"clevel", codec.level},
                {"shuffle", kShuffles[codec.shuffle]},
                {"typesize", codec.element_size != 0 ? codec.element_size : type.size},
                {"blocksize", codec.block_size}}}};
    case Id::kZstd:
      return {{"name", "zstd"}, {"configuration", {{"level", codec.level}, {"checksum", false}}}};
    case Id::kGzip:
      return {{"name", "gzip"}, {"configuration", {{"level", codec.level}}}};
    case Id::kCrc32c:
      return {{"name", "crc32c"}};
    case Id::kShuffle:
      return {{"name", numcodecs}, {"configuration", {{"elementsize", codec.element_size}}}};
    case Id::kZlib:
    case Id::kBz2:
      return {{"name", numcodecs}, {"configuration", {{"level", codec.level}}}};
    default:
      return {{"name", numcodecs}, {"configuration", json::object()}};
  }
}

}  // namespace

json codecs_to_json_v3(const CodecChain& chain, const DataType& type) {
  json out = json::array();
  for (const auto& order : chain.transposes)
    out.push_back({{"name", "transpose"}, {"configuration", {{"order", order}}}});
  if (chain.serializer == CodecChain::Serializer::kBytes) {
    json bytes{{"name", "bytes"}};
    if (type.size > 1) bytes["configuration"] = {{"endian", chain.big_endian ? "big" : "little"}};
    out.push_back(std::move(bytes));
  } else if (chain.serializer == CodecChain::Serializer::kZfp) {
    out.push_back({{"name", "numcodecs.zfpy"},
                   {"configuration", {{"mode", 4}, {"tolerance", chain.zfp_tolerance}}}});
  } else {
    static const DataType kIndexType{Kind::kUint, 8};
    const Sharding& s = *chain.sharding;
    out.push_back({{"name", "sharding_indexed"},
                   {"configuration",
                    {{"chunk_shape", s.chunk_shape},
                     {"codecs", codecs_to_json_v3(s.inner, type)},
                     {"index_codecs", codecs_to_json_v3(s.index, kIndexType)},
                     {"index_location", s.index_at_start ? "start" : "end"}}}});
  }
  for (const BytesCodec& codec : chain.bytes_codecs)
    out.push_back(bytes_codec_to_json(codec, type));
  return out;
}

json compressor_to_json_v2(const CodecChain& chain) {
  if (chain.serializer == CodecChain::Serializer::kZfp)
    return {{"id", "zfpy"},
            {"mode", 4},
            {"tolerance", chain.zfp_tolerance},
            {"rate", -1},
            {"precision", -1}};
  if (chain.bytes_codecs.empty()) return nullptr;
  const BytesCodec& codec = chain.bytes_codecs.front();
  if (codec.id == Id::kBlosc)
    return {{"id", "blosc"},
            {"cname", codec.inner},
            {"clevel", codec.level},
            {"shuffle", codec.shuffle},
            {"blocksize", codec.block_size}};
  if (codec.id == Id::kLz4) return {{"id", "lz4"}, {"acceleration", 1}};
  return {{"id", codec.name}, {"level", codec.level}};
}

}  // namespace craton::volume::zarr
