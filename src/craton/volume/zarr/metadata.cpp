#include "craton/volume/zarr/metadata.h"

#include <algorithm>
#include <functional>

#include "craton/base/error.h"

namespace craton::volume::zarr {

using nlohmann::json;

namespace {

constexpr size_t kMaxRank = 32;
/// Copying and destroying JSON recurses, so text that nests deeper is refused before it is parsed.
constexpr int kMaxJsonDepth = 64;

/// Python writes NaN and Infinity bare, which is no JSON: the word that begins at `at`, or "".
std::string_view bare_number_at(std::string_view text, size_t at) {
  for (const std::string_view word : {"NaN", "Infinity", "-Infinity"})
    if (text.substr(at).starts_with(word)) return word;
  return "";
}

/// Runs a parser; faults of the JSON's types and errors without a place get the document's name.
ArrayMetadata parse_named(std::string_view name, const std::function<ArrayMetadata()>& parse) {
  try {
    return parse();
  } catch (const json::exception& e) {
    throw Error(ErrorCode::kCorrupt,
                fmt::format("Zarr metadata with a wrong or missing entry: {}", e.what()))
        .with("key", name);
  } catch (Error& e) {
    throw std::move(e.with("key", name));
  }
}

std::vector<int64_t> parse_shape(const json& value, const char* what) {
  if (!value.is_array())
    fail(ErrorCode::kCorrupt, "{} {}: expected a list of integers", what,
         value.dump().substr(0, 80));
  std::vector<int64_t> shape;
  for (const json& item : value) {
    const bool fits = item.is_number_integer() &&
                      (!item.is_number_unsigned() || item.get<uint64_t>() < (1ull << 62));
    if (!fits || item.get<int64_t>() < 0)
      fail(ErrorCode::kCorrupt, "{} {}: expected sizes", what, value.dump().substr(0, 80));
    shape.push_back(item.get<int64_t>());
  }
  if (shape.size() > kMaxRank)
    fail(ErrorCode::kUnsupported, "{} axes; at most {} are handled", shape.size(), kMaxRank);
  return shape;
}

void check_chunks(const ArrayMetadata& m) {
  if (m.object_shape.size() != m.shape.size())
    fail(ErrorCode::kCorrupt, "chunks with {} axes for an array with {}", m.object_shape.size(),
         m.shape.size());
  element_count(m.shape);
  element_count(m.object_shape);
  for (const int64_t n : m.object_shape)
    if (n <= 0) fail(ErrorCode::kCorrupt, "a chunk of size {}", n);
  const int64_t elements = element_count(m.chunk_shape());
  if (elements > kMaxChunkBytes / m.type.size)
    fail(ErrorCode::kUnsupported,
         "chunks of {} elements of {} bytes; at most {} MiB per chunk are handled", elements,
         m.type.size, kMaxChunkBytes >> 20);
}

char parse_separator(const json& value) {
  if (value == "/") return '/';
  if (value == ".") return '.';
  fail(ErrorCode::kCorrupt, "chunk key separator {}: expected \"/\" or \".\"",
       value.dump().substr(0, 20));
}

void parse_key_encoding(const json& document, ArrayMetadata& m) {
  const json encoding = document.value("chunk_key_encoding", json("default"));
  const std::string name =
      encoding.is_string() ? encoding.get<std::string>() : encoding.at("name").get<std::string>();
  if (name != "default" && name != "v2")
    fail(ErrorCode::kUnsupported, "chunk key encoding \"{}\" is not handled", name);
  m.v2_keys = name == "v2";
  const json options =
      encoding.is_object() ? encoding.value("configuration", json::object()) : json::object();
  m.separator = parse_separator(options.value("separator", json(m.v2_keys ? "." : "/")));
}

void refuse_unknown_keys(const json& document) {
  static constexpr std::string_view kKnown[] = {
      "zarr_format",         "node_type",  "shape",  "data_type",  "chunk_grid",
      "chunk_key_encoding",  "fill_value", "codecs", "attributes", "dimension_names",
      "storage_transformers"};
  for (const auto& [key, value] : document.items()) {
    if (std::ranges::find(kKnown, key) != std::end(kKnown)) continue;
    const bool optional =
        value.is_object() && value.contains("must_understand") && value["must_understand"] == false;
    if (!optional)
      fail(ErrorCode::kUnsupported, "unknown entry \"{}\" that must be understood",
           key.substr(0, 60));
  }
  const json transformers = document.value("storage_transformers", json());
  if (!transformers.is_null() && !transformers.empty())
    fail(ErrorCode::kUnsupported, "storage transformers are not handled");
}

ArrayMetadata parse_v3(const json& document) {
  if (!document.is_object() || document.value("zarr_format", 0) != 3 ||
      document.value("node_type", "") != "array")
    fail(ErrorCode::kCorrupt, "no Zarr v3 array: expected zarr_format 3 and node_type \"array\"");
  ArrayMetadata m;
  m.format = 3;
  refuse_unknown_keys(document);
  m.shape = parse_shape(document.at("shape"), "shape");
  m.type = parse_data_type_v3(document.at("data_type"));
  const json& grid = document.at("chunk_grid");
  if (grid.at("name") != "regular")
    fail(ErrorCode::kUnsupported, "chunk grid {} is not handled", grid["name"].dump());
  m.object_shape = parse_shape(grid.at("configuration").at("chunk_shape"), "chunk_shape");
  if (m.object_shape.size() != m.shape.size())
    fail(ErrorCode::kCorrupt, "chunks with {} axes for an array with {}", m.object_shape.size(),
         m.shape.size());
  parse_key_encoding(document, m);
  m.fill = parse_fill_value(document.at("fill_value"), m.type);
  m.fill_is_null = document.at("fill_value").is_null();
  m.codecs = parse_codecs_v3(document.at("codecs"), m.object_shape, m.type);
  m.attributes = document.value("attributes", json::object());
  const json names = document.value("dimension_names", json());
  if (names.is_array() && names.size() == m.shape.size())
    for (const json& name : names)
      m.dimension_names.push_back(name.is_string() ? name.get<std::string>() : "");
  check_chunks(m);
  return m;
}

ArrayMetadata parse_v2(const json& zarray, const json& zattrs) {
  if (!zarray.is_object() || zarray.value("zarr_format", 0) != 2)
    fail(ErrorCode::kCorrupt, "no Zarr v2 array: expected zarr_format 2");
  ArrayMetadata m;
  m.format = 2;
  m.v2_keys = true;
  m.shape = parse_shape(zarray.at("shape"), "shape");
  m.type = parse_data_type_v2(zarray.at("dtype"));
  m.object_shape = parse_shape(zarray.at("chunks"), "chunks");
  m.separator = parse_separator(zarray.value("dimension_separator", json(".")));
  const json fill = zarray.value("fill_value", json());
  m.fill = parse_fill_value(fill, m.type);
  // As text it holds the element's bytes as stored.
  if (m.type.kind == Kind::kStruct && m.type.big_endian && fill.is_string())
    swap_bytes(m.fill, m.type);
  m.fill_is_null = fill.is_null();
  m.codecs = parse_codecs_v2(zarray, m.shape.size(), m.type);
  if (zattrs.is_object()) m.attributes = zattrs;
  const json names = m.attributes.value("_ARRAY_DIMENSIONS", json());
  if (names.is_array() && names.size() == m.shape.size())
    for (const json& name : names)
      m.dimension_names.push_back(name.is_string() ? name.get<std::string>() : "");
  check_chunks(m);
  return m;
}

}  // namespace

bool ArrayMetadata::has_inner_chunks() const {
  return codecs.serializer == CodecChain::Serializer::kSharding && codecs.transposes.empty() &&
         codecs.bytes_codecs.empty();
}

const std::vector<int64_t>& ArrayMetadata::chunk_shape() const {
  return has_inner_chunks() ? codecs.sharding->chunk_shape : object_shape;
}

std::string ArrayMetadata::object_key(std::span<const int64_t> index) const {
  std::string key = v2_keys ? "" : "c";
  for (size_t i = 0; i < index.size(); ++i) {
    if (i > 0 || !v2_keys) key += separator;
    key += std::to_string(index[i]);
  }
  return key.empty() ? "0" : key;
}

json parse_json(std::span<const std::byte> bytes, std::string_view name) {
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::string quoted;  // `text` with bare numbers in quotes, as Zarr spells them in fill values
  size_t copied = 0;
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxJsonDepth)
        throw Error(ErrorCode::kCorrupt,
                    fmt::format("JSON that nests deeper than {} levels", kMaxJsonDepth))
            .with("key", name);
    } else if (c == ']' || c == '}') {
      --depth;
    } else if (const std::string_view word = bare_number_at(text, i); !word.empty()) {
      quoted += fmt::format("{}\"{}\"", text.substr(copied, i - copied), word);
      copied = i + word.size();
      i = copied - 1;
    }
  }
  if (copied > 0) text = quoted += text.substr(copied);
  json document = json::parse(text, nullptr, false);
  if (document.is_discarded()) throw Error(ErrorCode::kCorrupt, "no valid JSON").with("key", name);
  return document;
}

ArrayMetadata parse_array_v3(const json& document, std::string_view name) {
  return parse_named(name, [&] { return parse_v3(document); });
}

ArrayMetadata parse_array_v2(const json& zarray, const json& zattrs, std::string_view name) {
  return parse_named(name, [&] { return parse_v2(zarray, zattrs); });
}

json to_json_v3(const ArrayMetadata& m) {
  json out{
      {"zarr_format", 3},
      {"node_type", "array"},
      {"shape", m.shape},
      {"data_type", to_json_v3(m.type)},
      {"chunk_grid", {{"name", "regular"}, {"configuration", {{"chunk_shape", m.object_shape}}}}},
      {"chunk_key_encoding",
       {{"name", m.v2_keys ? "v2" : "default"},
        {"configuration", {{"separator", std::string(1, m.separator)}}}}},
      {"fill_value", fill_value_to_json(m.fill, m.type)},
      {"codecs", codecs_to_json_v3(m.codecs, m.type)},
      {"attributes", m.attributes},
      {"storage_transformers", json::array()}};
  if (!m.dimension_names.empty()) out["dimension_names"] = m.dimension_names;
  return out;
}

json to_json_v2(const ArrayMetadata& m) {
  return {{"zarr_format", 2},
          {"shape", m.shape},
          {"chunks", m.object_shape},
          {"dtype", to_json_v2(m.type)},
          {"compressor", compressor_to_json_v2(m.codecs)},
          {"filters", nullptr},
          {"order", "C"},
          {"fill_value", m.fill_is_null ? json() : fill_value_to_json(m.fill, m.type)},
          {"dimension_separator", std::string(1, m.separator)}};
}

json attributes_to_json_v2(const ArrayMetadata& m) {
  json out = m.attributes;
  out["_ARRAY_DIMENSIONS"] = m.dimension_names;
  return out;
}

}  // namespace craton::volume::zarr
