#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <ctime>

#include "craton/base/base64.h"
#include "craton/base/error.h"
#include "craton/base/fault_point.h"
#include "craton/volume/mdio/array_volume.h"
#include "craton/volume/mdio/writer.h"

// What makes the chunks a volume: metadata documents, coordinates, the mask and the SEG-Y file
// header.
namespace craton::volume::mdio {

using nlohmann::json;

namespace {

constexpr const char* kApiVersion = "1.1.1";  // of the MDIO v1 schema that is written
constexpr int64_t kMaxSmallChunkElements =
    4 << 20;  // beside the samples: 32 MiB per chunk of doubles, as MDIO

const zarr::DataType kFloat64{zarr::Kind::kFloat, 8};
const zarr::DataType kInt32{zarr::Kind::kInt, 4};
const zarr::DataType kBool{zarr::Kind::kBool, 1};

std::string now_text() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  const auto micros =
      std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch()).count() %
      1000000;
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02}.{:06}+00:00", parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                     micros);
}

/// Chunks of a small array: whole, else cut along the leading axes.
std::vector<int64_t> small_chunks(const std::vector<int64_t>& shape) {
  std::vector<int64_t> chunks = shape;
  for (int64_t& n : chunks) n = std::max<int64_t>(n, 1);
  for (size_t axis = 0; axis < chunks.size(); ++axis) {
    const int64_t rest = zarr::element_count(std::span(chunks).subspan(axis + 1));
    chunks[axis] =
        std::clamp<int64_t>(kMaxSmallChunkElements / std::max<int64_t>(rest, 1), 1, chunks[axis]);
    if (zarr::element_count(std::span(chunks).subspan(axis)) <= kMaxSmallChunkElements &&
        chunks[axis] > 1)
      break;
  }
  return chunks;
}

}  // namespace

void MdioWriter::put_node(const std::string& name, const json& v3, const json& zarray,
                          const json& zattrs) {
  if (spec_.zarr_format == 3) {
    documents_[name + "/zarr.json"] = v3;
    return;
  }
  documents_[name + "/.zarray"] = zarray;
  documents_[name + "/.zattrs"] = zattrs;
}

void MdioWriter::put_metadata(const std::string& name, const zarr::ArrayMetadata& metadata) {
  put_node(name, zarr::to_json_v3(metadata), zarr::to_json_v2(metadata),
           zarr::attributes_to_json_v2(metadata));
}

void MdioWriter::put_whole(const std::string& name, const zarr::ArrayMetadata& metadata,
                           std::span<const std::byte> elements) {
  put_metadata(name, metadata);
  const auto& shape = metadata.shape;
  const auto& chunk_shape = metadata.object_shape;
  if (elements.empty()) return;
  const std::vector<int64_t> zero(shape.size(), 0);
  std::vector<int64_t> at(shape.size(), 0), origin(shape.size()), extent(shape.size());
  while (true) {
    zarr::Bytes chunk(static_cast<size_t>(zarr::element_count(chunk_shape)) * metadata.type.size);
    for (size_t i = 0; i < shape.size(); ++i) {
      origin[i] = at[i] * chunk_shape[i];
      extent[i] = std::min(chunk_shape[i], shape[i] - origin[i]);
    }
    zarr::copy_box(elements.data(), shape, origin, chunk.data(), chunk_shape, zero, extent,
                   metadata.type.size);
    target_.put(key_of(name, metadata, at),
                zarr::encode_chunk(metadata.codecs, chunk, chunk_shape, metadata.type));
    size_t axis = shape.size();
    while (axis > 0 && (at[axis - 1] + 1) * chunk_shape[axis - 1] >= shape[axis - 1])
      at[--axis] = 0;
    if (axis == 0) return;
    ++at[axis - 1];
  }
}

void MdioWriter::put_axes() {
  for (const Axis& axis : spec_.axes) {
    const bool whole = std::ranges::all_of(axis.coordinates, [](double c) {
      return c == std::nearbyint(c) && std::fabs(c) < 2147483647.0;
    });
    const zarr::DataType& type = whole ? kInt32 : kFloat64;
    zarr::Bytes elements(axis.coordinates.size() * type.size);
    for (size_t i = 0; i < axis.coordinates.size(); ++i) {
      const auto integer = whole ? static_cast<int32_t>(axis.coordinates[i]) : 0;
      std::memcpy(elements.data() + i * type.size,
                  whole ? static_cast<const void*>(&integer) : &axis.coordinates[i], type.size);
    }
    zarr::ArrayMetadata m = make_array({axis.size()}, {axis.size()}, type,
                                       whole ? json(2147483647) : json("NaN"), {axis.name});
    // As MDIO: coordinates of the axes carry zarr's own default compressor.
    m.codecs.bytes_codecs = {{zarr::BytesCodec::Id::kZstd, "zstd", "", 0}};
    if (!axis.unit.empty()) {
      const bool is_length = axis.unit == "m" || axis.unit == "ft" || axis.unit == "km";
      const bool is_angle = axis.unit == "deg" || axis.unit == "rad";
      m.attributes["unitsV1"] = {{is_length ? "length" : is_angle ? "angle" : "time", axis.unit}};
    }
    put_whole(axis.name, m, elements);
  }
}

void MdioWriter::put_positions() {
  for (const auto& [name, values] :
       {std::pair("cdp_x", &spec_.cdp_x), std::pair("cdp_y", &spec_.cdp_y)}) {
    if (values->empty()) continue;
    // Over all trace axes, or over the leading ones: gathers share the position of their midpoint.
    size_t rank = trace_shape_.size();
    while (rank > 1 && zarr::element_count(std::span(trace_shape_).first(rank)) >
                           static_cast<int64_t>(values->size()))
      --rank;
    const std::vector<int64_t> shape(trace_shape_.begin(),
                                     trace_shape_.begin() + static_cast<ptrdiff_t>(rank));
    if (zarr::element_count(shape) != static_cast<int64_t>(values->size()))
      fail(ErrorCode::kInvalidArgument, "{} positions in {} for traces in [{}]", values->size(),
           name, fmt::join(trace_shape_, ", "));
    zarr::ArrayMetadata m =
        make_array(shape, small_chunks(shape), kFloat64, "NaN",
                   {dimensions_.begin(), dimensions_.begin() + static_cast<ptrdiff_t>(rank)});
    m.attributes["unitsV1"] = {{"length", "m"}};
    put_whole(name, m, std::as_bytes(std::span(*values)));
  }
}

void MdioWriter::put_segy_file_header() {
  if (!segy_header_) return;
  const SegyFileHeader& h = *segy_header_;
  json attributes = json::object();
  const auto add_json = [&](const char* name, const std::string& text) {
    if (text.empty()) return;
    json value = json::parse(text, nullptr, false);
    if (value.is_discarded())
      fail(ErrorCode::kInvalidArgument, "SEG-Y file header: {} is no JSON", name);
    attributes[name] = std::move(value);
  };
  const auto add_raw = [&](const char* name, const std::vector<std::byte>& bytes) {
    if (!bytes.empty()) attributes[name] = encode_base64(bytes);
  };
  if (!h.text.empty()) attributes["textHeader"] = h.text;
  add_json("binaryHeader", h.binary);
  add_raw("rawTextHeader", h.raw_text);
  add_raw("rawBinaryHeader", h.raw_binary);
  add_raw("rawExtendedTextHeaders", h.raw_extended);
  add_raw("rawTrailer", h.raw_trailer);
  add_json("segyExport", h.more);
  // A string of no axes whose one chunk is absent: only the attributes count.
  const json v3{
      {"zarr_format", 3},
      {"node_type", "array"},
      {"shape", json::array()},
      {"data_type", "string"},
      {"chunk_grid", {{"name", "regular"}, {"configuration", {{"chunk_shape", json::array()}}}}},
      {"chunk_key_encoding", {{"name", "default"}, {"configuration", {{"separator", "/"}}}}},
      {"fill_value", ""},
      {"codecs", {{{"name", "vlen-utf8"}}}},
      {"attributes", attributes},
      {"dimension_names", json::array()},
      {"storage_transformers", json::array()}};
  const json zarray{
      {"zarr_format", 2}, {"shape", json::array()}, {"chunks", json::array()},
      {"dtype", "|O"},    {"compressor", nullptr},  {"filters", {{{"id", "vlen-utf8"}}}},
      {"order", "C"},     {"fill_value", ""},       {"dimension_separator", "/"}};
  json zattrs = attributes;
  zattrs["_ARRAY_DIMENSIONS"] = json::array();
  put_node("segy_file_header", v3, zarray, zattrs);
}

void MdioWriter::write_array(std::string_view name, const NamedArray& array,
                             std::string_view attributes) {
  check_name(name, "an array");
  bool taken =
      name == spec_.variable ||
      documents_.contains(std::string(name) + (spec_.zarr_format == 3 ? "/zarr.json" : "/.zarray"));
  for (const char* own :
       {"trace_mask", "cdp_x", "cdp_y", "headers", "raw_headers", "segy_file_header"})
    taken = taken || name == own;
  for (const std::string& axis : dimensions_) taken = taken || name == axis;
  if (taken) fail(ErrorCode::kInvalidArgument, "the volume has an array \"{}\" already", name);
  const zarr::DataType type = zarr::data_type_from_name(array.type);
  if (array.bytes.size() != static_cast<size_t>(zarr::element_count(array.shape)) * type.size)
    fail(ErrorCode::kInvalidArgument, "{} bytes for the array \"{}\" of [{}] {}",
         array.bytes.size(), name, fmt::join(array.shape, ", "), array.type);
  std::vector<std::string> dimensions;
  for (size_t i = 0; i < array.shape.size(); ++i)
    dimensions.push_back(fmt::format("{}_{}", name, i));
  zarr::ArrayMetadata m =
      make_array(array.shape, small_chunks(array.shape), type,
                 type.is_number() && type.kind != zarr::Kind::kBool ? json(0) : json(), dimensions);
  if (!attributes.empty()) {
    m.attributes = json::parse(attributes, nullptr, false);
    if (!m.attributes.is_object())
      fail(ErrorCode::kInvalidArgument, "the attributes of \"{}\" are no JSON object", name);
  }
  std::lock_guard lock(mutex_);
  put_whole(std::string(name), m, array.bytes);
}

json MdioWriter::root_attributes() const {
  json free = free_attributes_;
  free["surveyType"] = spec_.survey_type;
  if (!free.contains("gatherType"))
    free["gatherType"] =
        spec_.axes.size() > 3 || dimensions_.back() == "offset" ? "cdp" : "stacked";
  free["defaultVariableName"] = spec_.variable;
  return {{"apiVersion", kApiVersion},
          {"createdOn", now_text()},
          {"name", spec_.name},
          {"attributes", std::move(free)}};
}

void MdioWriter::finish() {
  if (finished_) fail(ErrorCode::kInternal, "a volume was finished twice");
  for (auto& [shard, open] : shards_) put_shard(shard, std::move(open.chunks));
  shards_.clear();
  CRATON_FAULT_POINT("volume.finish");
  put_axes();
  put_positions();
  put_segy_file_header();
  const std::vector<std::string> trace_dimensions(dimensions_.begin(), dimensions_.end() - 1);
  zarr::ArrayMetadata mask =
      make_array(trace_shape_, small_chunks(trace_shape_), kBool, false, trace_dimensions);
  const bool has_positions = !spec_.cdp_x.empty() && !spec_.cdp_y.empty();
  if (has_positions)
    mask.attributes["coordinates"] = samples_.attributes["coordinates"] = "cdp_x cdp_y";
  put_whole("trace_mask", mask, std::as_bytes(std::span(live_)));
  samples_.attributes["statsV1"] = to_json(statistics_.total()).dump();
  if (!spec_.sample_unit.empty())
    samples_.attributes["unitsV1"] = {{"amplitude", spec_.sample_unit}};
  put_metadata(spec_.variable, samples_);
  if (spec_.trace_header_bytes > 0) {
    put_metadata("headers", headers_);
    put_metadata("raw_headers", raw_headers_);
  }
  std::vector<std::pair<std::string, json>> documents(documents_.begin(), documents_.end());
  if (spec_.zarr_format == 3) {
    documents.emplace_back(
        "zarr.json",
        json{{"zarr_format", 3}, {"node_type", "group"}, {"attributes", root_attributes()}});
  } else {
    documents.emplace_back(".zattrs", root_attributes());
    documents.emplace_back(".zgroup", json{{"zarr_format", 2}});
    json all = json::object();
    for (const auto& [key, document] : documents) all[key] = document;
    documents.emplace_back(".zmetadata",
                           json{{"zarr_consolidated_format", 1}, {"metadata", std::move(all)}});
  }
  target_.commit(documents);
  finished_ = true;
}

}  // namespace craton::volume::mdio
