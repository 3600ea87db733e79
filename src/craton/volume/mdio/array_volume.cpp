#include "craton/volume/mdio/array_volume.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "craton/base/base64.h"
#include "craton/base/error.h"
#include "craton/base/log.h"

namespace craton::volume::mdio {

using nlohmann::json;

namespace {

constexpr int64_t kMaxAxis = int64_t{1} << 25;
constexpr int64_t kMaxTraces = int64_t{1} << 31;
/// An array that is read whole beside the samples may not be larger.
constexpr int64_t kMaxNamedArrayBytes = int64_t{1} << 32;

std::string codec_name(const zarr::CodecChain& chain) {
  if (chain.serializer == zarr::CodecChain::Serializer::kSharding)
    return codec_name(chain.sharding->inner);
  if (chain.serializer == zarr::CodecChain::Serializer::kZfp) return "zfp";
  std::string out;
  for (const auto& codec : chain.bytes_codecs) {
    out += (out.empty() ? "" : ", ") + codec.name;
    if (codec.id == zarr::BytesCodec::Id::kBlosc) out += " " + codec.inner;
  }
  return out.empty() ? "none" : out;
}

std::vector<std::byte> bytes_from_base64(const json& attributes, const char* name) {
  if (!attributes.contains(name) || !attributes[name].is_string()) return {};
  return decode_base64(attributes[name].get<std::string>());
}

std::string text_of(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  std::string out;
  if (!value.is_array()) return out;
  for (const json& line : value) {
    if (!line.is_string()) continue;
    if (!out.empty()) out += '\n';
    out += line.get<std::string>();
  }
  return out;
}

}  // namespace

ArrayVolume::ArrayVolume(zarr::Hierarchy hierarchy, VolumeParts parts)
    : hierarchy_(std::move(hierarchy)), parts_(std::move(parts)) {
  const auto shape = parts_.info.shape();
  const int64_t traces = zarr::element_count(std::span(shape).first(shape.size() - 1));
  if (parts_.live.empty()) parts_.live.assign(static_cast<size_t>(traces), 1);
  all_live_ = std::ranges::find(parts_.live, uint8_t{0}) == parts_.live.end();
  const auto& type = parts_.samples->metadata().type;
  is_float_ = type.kind == zarr::Kind::kFloat && type.size == 4;
}

/// Zeros the dead traces of a block whose rows along the last axis have `trace_bytes`.
void ArrayVolume::clear_dead(std::span<const int64_t> origin, std::span<const int64_t> shape,
                             std::span<std::byte> out, size_t trace_bytes) const {
  if (all_live_) return;
  const size_t axes = parts_.info.axes.size() - 1;
  std::vector<int64_t> at(axes, 0);
  for (size_t row = 0; (row + 1) * trace_bytes <= out.size(); ++row) {
    int64_t trace = 0;
    for (size_t i = 0; i < axes; ++i)
      trace = trace * parts_.info.axes[i].size() + origin[i] + at[i];
    if (parts_.live[static_cast<size_t>(trace)] == 0)
      std::memset(out.data() + row * trace_bytes, 0, trace_bytes);
    for (size_t i = axes; i-- > 0;) {
      if (++at[i] < shape[i]) break;
      at[i] = 0;
    }
  }
}

void ArrayVolume::read(std::span<const int64_t> origin, std::span<const int64_t> shape,
                       std::span<float> out) const {
  if (is_float_) {
    parts_.samples->read(origin, shape, std::as_writable_bytes(out));
  } else {
    zarr::Bytes elements(out.size() * parts_.samples->metadata().type.size);
    parts_.samples->read(origin, shape, elements);
    zarr::convert(elements, parts_.samples->metadata().type, out);
  }
  if (!out.empty())
    clear_dead(origin, shape, std::as_writable_bytes(out),
               static_cast<size_t>(shape.back()) * sizeof(float));
  if (parts_.nan_means_dead)
    for (float& sample : out) sample = std::isnan(sample) ? 0.0f : sample;
}

void ArrayVolume::read_raw(std::span<const int64_t> origin, std::span<const int64_t> shape,
                           std::span<std::byte> out) const {
  parts_.samples->read(origin, shape, out);
  if (!out.empty())
    clear_dead(origin, shape, out,
               static_cast<size_t>(shape.back()) * parts_.samples->metadata().type.size);
}

void ArrayVolume::read_chunk(std::span<const int64_t> chunk, std::span<float> out) const {
  const std::vector<int64_t> one(chunk.begin(), chunk.end());
  read_chunks({&one, 1}, {&out, 1}, {}, [](size_t) {});
}

void ArrayVolume::read_chunks(std::span<const std::vector<int64_t>> chunks,
                              std::span<const std::span<float>> targets,
                              const store::ReadLimits& limits,
                              const std::function<void(size_t i)>& done) const {
  zarr::Bytes elements(is_float_ ? 0 : parts_.samples->chunk_bytes());
  const auto place = [&](size_t i, const zarr::Array::Decode& decode) {
    if (is_float_) {
      decode(std::as_writable_bytes(targets[i]));
    } else {
      decode(elements);
      zarr::convert(elements, parts_.samples->metadata().type, targets[i]);
    }
    finish_chunk(chunks[i], targets[i]);
    done(i);
  };
  parts_.samples->read_chunks(chunks, limits, place);
}

/// Zeros what is dead or lies past the edge.
void ArrayVolume::finish_chunk(std::span<const int64_t> chunk, std::span<float> out) const {
  const auto& chunk_shape = parts_.info.chunk_shape;
  const size_t rank = chunk_shape.size();
  bool inside = true;
  std::vector<int64_t> begin(rank);
  for (size_t i = 0; i < rank; ++i) {
    begin[i] = chunk[i] * chunk_shape[i];
    inside = inside && begin[i] + chunk_shape[i] <= parts_.info.axes[i].size();
  }
  if (parts_.nan_means_dead)
    for (float& sample : out) sample = std::isnan(sample) ? 0.0f : sample;
  const auto samples = static_cast<size_t>(chunk_shape.back());
  if (inside)
    return clear_dead(begin, chunk_shape, std::as_writable_bytes(out), samples * sizeof(float));
  // At the edge: zero what lies outside, row by row.
  const auto valid = static_cast<size_t>(
      std::min<int64_t>(chunk_shape.back(), parts_.info.axes.back().size() - begin.back()));
  std::vector<int64_t> at(rank - 1, 0);
  for (size_t row = 0; row < out.size() / samples; ++row) {
    int64_t trace = 0;
    bool exists = true;
    for (size_t i = 0; i + 1 < rank; ++i) {
      exists = exists && begin[i] + at[i] < parts_.info.axes[i].size();
      trace = trace * parts_.info.axes[i].size() + begin[i] + at[i];
    }
    const size_t keep = exists && parts_.live[static_cast<size_t>(trace)] != 0 ? valid : 0;
    std::fill(out.begin() + static_cast<ptrdiff_t>(row * samples + keep),
              out.begin() + static_cast<ptrdiff_t>((row + 1) * samples), 0.0f);
    for (size_t i = rank - 1; i-- > 0;) {
      if (++at[i] < chunk_shape[i]) break;
      at[i] = 0;
    }
  }
}

size_t ArrayVolume::trace_header_bytes() const {
  return parts_.trace_headers ? parts_.trace_headers->metadata().type.size : 0;
}

void ArrayVolume::read_trace_headers(std::span<const int64_t> origin,
                                     std::span<const int64_t> shape,
                                     std::span<std::byte> out) const {
  if (!parts_.trace_headers) return Volume::read_trace_headers(origin, shape, out);
  parts_.trace_headers->read(origin, shape, out);
}

std::optional<SegyFileHeader> ArrayVolume::segy_file_header() const {
  const bool v0 = parts_.array_prefix == "metadata/";
  json attributes = hierarchy_.attributes(v0 ? "metadata" : "segy_file_header");
  if (!v0 && !attributes.contains("textHeader")) attributes = hierarchy_.attributes("");
  SegyFileHeader header;
  header.text = text_of(attributes.value(v0 ? "text_header" : "textHeader", json()));
  const json binary = attributes.value(v0 ? "binary_header" : "binaryHeader", json());
  if (header.text.empty() && !binary.is_object()) return std::nullopt;
  if (binary.is_object()) header.binary = binary.dump();
  header.raw_text = bytes_from_base64(attributes, "rawTextHeader");
  header.raw_binary = bytes_from_base64(attributes, "rawBinaryHeader");
  header.raw_extended = bytes_from_base64(attributes, "rawExtendedTextHeaders");
  header.raw_trailer = bytes_from_base64(attributes, "rawTrailer");
  if (attributes.contains("segyExport")) header.more = attributes["segyExport"].dump();
  return header;
}

std::optional<NamedArray> ArrayVolume::read_array(std::string_view name) const {
  const auto array = hierarchy_.open_array(parts_.array_prefix + std::string(name));
  if (!array) return std::nullopt;
  const auto& metadata = array->metadata();
  if (zarr::element_count(metadata.shape) > kMaxNamedArrayBytes / metadata.type.size)
    fail(ErrorCode::kResourceExhausted, "{}: array \"{}\" is too large to be read whole",
         parts_.info.uri, name);
  return NamedArray{metadata.type.name(), metadata.shape, array->read_all()};
}

Axis read_axis(const zarr::Hierarchy& hierarchy, const std::string& path, const std::string& name,
               int64_t size) {
  if (size > kMaxAxis)
    fail(ErrorCode::kUnsupported, "axis \"{}\" with {} positions; at most {} are handled", name,
         size, kMaxAxis);
  Axis axis{name};
  try {
    const auto array = path.empty() ? nullptr : hierarchy.open_array(path);
    if (array && array->metadata().shape == std::vector<int64_t>{size}) {
      const json units = array->metadata().attributes.value("unitsV1", json());
      if (units.is_object() && !units.empty() && units.begin()->is_string())
        axis.unit = units.begin()->get<std::string>();
      axis.coordinates.resize(static_cast<size_t>(size));
      zarr::convert(array->read_all(), array->metadata().type, axis.coordinates);
      return axis;
    }
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kUnsupported) throw;
    log_warning("{}: coordinates \"{}\" are counted from 0: {}", hierarchy.store()->uri(), name,
                e.what());
  }
  axis.coordinates.resize(static_cast<size_t>(size));
  for (size_t i = 0; i < axis.coordinates.size(); ++i) axis.coordinates[i] = static_cast<double>(i);
  return axis;
}

void describe_samples(const zarr::Array& samples, VolumeInfo& info) {
  const auto& metadata = samples.metadata();
  if (!metadata.type.is_number())
    fail(ErrorCode::kUnsupported, "{}: array \"{}\" holds {}, not numbers", info.uri,
         samples.path(), metadata.type.name());
  if (metadata.rank() == 0)
    fail(ErrorCode::kUnsupported, "{}: array \"{}\" has no axes", info.uri, samples.path());
  // Before anything is allocated for axes or traces.
  if (zarr::element_count(metadata.shape) == 0)
    fail(ErrorCode::kUnsupported, "{}: array \"{}\" of shape [{}] has no elements", info.uri,
         samples.path(), fmt::join(metadata.shape, ", "));
  const int64_t traces = zarr::element_count(std::span(metadata.shape).first(metadata.rank() - 1));
  if (traces > kMaxTraces)
    fail(ErrorCode::kUnsupported, "{}: {} traces; at most {} are handled", info.uri, traces,
         kMaxTraces);
  info.chunk_shape = metadata.chunk_shape();
  if (metadata.has_inner_chunks()) info.shard_shape = metadata.object_shape;
  info.sample_type = metadata.type.name();
  info.codec = codec_name(metadata.codecs);
}

std::vector<uint8_t> read_mask(const zarr::Array& mask, std::span<const int64_t> trace_shape) {
  const auto& metadata = mask.metadata();
  if (!std::ranges::equal(metadata.shape, trace_shape))
    throw Error(ErrorCode::kCorrupt,
                fmt::format("a trace mask of shape [{}] for traces in [{}]",
                            fmt::join(metadata.shape, ", "), fmt::join(trace_shape, ", ")))
        .with("key", mask.path());
  if (!metadata.type.is_number() || metadata.type.size != 1)
    throw Error(ErrorCode::kUnsupported, "a trace mask of type " + metadata.type.name())
        .with("key", mask.path());
  if (zarr::element_count(trace_shape) > kMaxTraces)
    throw Error(ErrorCode::kUnsupported,
                fmt::format("a trace mask of {} traces", zarr::element_count(trace_shape)))
        .with("key", mask.path());
  std::vector<uint8_t> out(static_cast<size_t>(zarr::element_count(trace_shape)));
  mask.read(std::vector<int64_t>(trace_shape.size(), 0), trace_shape,
            std::as_writable_bytes(std::span(out)));
  for (uint8_t& flag : out) flag = flag != 0;
  return out;
}

Statistics parse_statistics(const json& value) {
  if (value.is_string()) {
    json inner;
    try {
      const std::string text = value.get<std::string>();
      inner = zarr::parse_json(std::as_bytes(std::span(text)), "statsV1");
    } catch (const Error&) {
      // No statistics, then.
    }
    return inner.is_string() ? Statistics() : parse_statistics(inner);
  }
  if (value.is_array() && !value.empty() && value[0].is_object()) return parse_statistics(value[0]);
  if (!value.is_object()) return {};
  const auto number = [&](const char* name) {
    return value.contains(name) && value[name].is_number() ? value[name].get<double>() : 0.0;
  };
  Statistics s{static_cast<int64_t>(std::clamp(number("count"), 0.0, 9e15)), number("sum"),
               number("sumSquares"), number("min"), number("max")};
  const json histogram = value.value("histogram", json());
  if (!histogram.is_object()) return s;
  for (const json& center : histogram.value("binCenters", json::array()))
    if (center.is_number()) s.histogram_centers.push_back(center.get<double>());
  for (const json& count : histogram.value("counts", json::array()))
    if (count.is_number())
      s.histogram_counts.push_back(
          static_cast<int64_t>(std::clamp(count.get<double>(), 0.0, 9e15)));
  if (s.histogram_centers.size() != s.histogram_counts.size()) {
    s.histogram_centers.clear();
    s.histogram_counts.clear();
  }
  return s;
}

json to_json(const Statistics& s) {
  return {{"count", s.count},
          {"sum", s.sum},
          {"sumSquares", s.sum_squares},
          {"min", s.min},
          {"max", s.max},
          {"histogram", {{"binCenters", s.histogram_centers}, {"counts", s.histogram_counts}}}};
}

}  // namespace craton::volume::mdio
