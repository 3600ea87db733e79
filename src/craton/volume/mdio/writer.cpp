#include "craton/volume/mdio/writer.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "craton/base/error.h"
#include "craton/base/fault_point.h"
#include "craton/volume/mdio/array_volume.h"
#include "craton/volume/mdio/header_fields.h"
#include "craton/volume/mdio/work_key.h"

namespace craton::volume {

namespace mdio {

using nlohmann::json;

void check_name(std::string_view name, const char* what) {
  const bool plain = !name.empty() && name.find_first_of("/\\\0", 0, 3) == name.npos &&
                     name[0] != '.' && name.size() < 200 && !name.starts_with("__") &&
                     name != "zarr.json";
  if (!plain) fail(ErrorCode::kInvalidArgument, "\"{}\" is no name for {}", name, what);
}

namespace {

constexpr int64_t kMaxTraces = int64_t{1} << 31;

/// Throws where the specification cannot be meant, so that nothing is created for it.
const VolumeSpec& checked(const VolumeSpec& spec) {
  if (spec.axes.size() < 2)
    fail(ErrorCode::kInvalidArgument, "a volume needs at least two axes, {} were given",
         spec.axes.size());
  std::set<std::string> names{"trace_mask", "cdp_x",       "cdp_y",
                              "headers",    "raw_headers", "segy_file_header"};
  check_name(spec.variable, "a variable");
  if (!names.insert(spec.variable).second)
    fail(ErrorCode::kInvalidArgument, "the variable may not be called \"{}\"", spec.variable);
  int64_t traces = 1;
  for (const Axis& axis : spec.axes) {
    check_name(axis.name, "an axis");
    if (!names.insert(axis.name).second)
      fail(ErrorCode::kInvalidArgument, "the name \"{}\" is used twice", axis.name);
    if (axis.size() == 0)
      fail(ErrorCode::kInvalidArgument, "axis \"{}\" has no positions", axis.name);
    if (&axis != &spec.axes.back()) traces = traces > kMaxTraces ? traces : traces * axis.size();
  }
  if (traces > kMaxTraces)
    fail(ErrorCode::kInvalidArgument, "a volume of more than {} traces", kMaxTraces);
  if (spec.zarr_format != 2 && spec.zarr_format != 3)
    fail(ErrorCode::kInvalidArgument, "Zarr format {}: 2 and 3 can be written", spec.zarr_format);
  if (!spec.chunk_shape.empty() && spec.chunk_shape.size() != spec.axes.size())
    fail(ErrorCode::kInvalidArgument, "a chunk shape of {} axes for a volume of {}",
         spec.chunk_shape.size(), spec.axes.size());
  for (const int64_t n : spec.chunk_shape)
    if (n <= 0) fail(ErrorCode::kInvalidArgument, "a chunk size of {}", n);
  if (spec.compressor != "zstd" && spec.compressor != "lz4" && spec.compressor != "none")
    fail(ErrorCode::kInvalidArgument, "compressor \"{}\": expected zstd, lz4 or none",
         spec.compressor);
  const int64_t header = spec.trace_header_bytes;
  if (header != 0 && (header < static_cast<int64_t>(kTraceHeaderBytes) || header > 65536))
    fail(ErrorCode::kInvalidArgument, "trace headers of {} bytes: expected 240 or more, or 0",
         header);
  if (spec.zfp_tolerance < 0 || !std::isfinite(spec.zfp_tolerance))
    fail(ErrorCode::kInvalidArgument, "a zfp tolerance of {}", spec.zfp_tolerance);
  return spec;
}

std::vector<int64_t> picked_chunks(const VolumeSpec& spec, const std::vector<int64_t>& shape) {
  std::vector<int64_t> out =
      spec.chunk_shape.empty() ? default_chunk_shape(shape) : spec.chunk_shape;
  for (size_t i = 0; i < out.size(); ++i) out[i] = std::min(out[i], shape[i]);
  return out;
}

std::vector<int64_t> without_last(const std::vector<int64_t>& shape) {
  return {shape.begin(), shape.end() - 1};
}

zarr::DataType sample_type_of(const VolumeSpec& spec) {
  const zarr::DataType type = zarr::data_type_from_name(spec.sample_type);
  const bool known = type.is_number() && type.kind != zarr::Kind::kBool &&
                     type.kind != zarr::Kind::kBrainFloat &&
                     !(type.kind == zarr::Kind::kFloat && type.size == 2);
  if (!known) fail(ErrorCode::kInvalidArgument, "samples cannot be stored as {}", spec.sample_type);
  return type;
}

/// MDIO's marker for "never written": NaN, or the largest integer.
json marker_fill(const zarr::DataType& type) {
  if (type.kind == zarr::Kind::kFloat) return "NaN";
  if (type.kind == zarr::Kind::kBool) return false;
  if (!type.is_number()) return nullptr;
  const uint64_t largest = ~0ull >> (64 - 8 * type.size);
  return type.kind == zarr::Kind::kUint ? largest : largest >> 1;
}

template <typename T>
void store_all(std::span<const float> in, std::byte* out) {
  for (size_t i = 0; i < in.size(); ++i) {
    T value;
    if constexpr (std::is_floating_point_v<T>) {
      value = in[i];
    } else {
      const double low = static_cast<double>(std::numeric_limits<T>::min()),
                   high = static_cast<double>(std::numeric_limits<T>::max());
      const double wide = std::nearbyint(static_cast<double>(in[i]));
      value = std::isnan(wide) ? T{0}
              : wide <= low    ? std::numeric_limits<T>::min()
              : wide >= high   ? std::numeric_limits<T>::max()
                               : static_cast<T>(wide);
    }
    std::memcpy(out + i * sizeof(T), &value, sizeof(T));
  }
}

zarr::Bytes from_floats(std::span<const float> in, const zarr::DataType& type) {
  zarr::Bytes out(in.size() * type.size);
  const bool is_signed = type.kind == zarr::Kind::kInt;
  if (type.kind == zarr::Kind::kFloat) {
    type.size == 4 ? store_all<float>(in, out.data()) : store_all<double>(in, out.data());
  } else if (type.size == 1) {
    is_signed ? store_all<int8_t>(in, out.data()) : store_all<uint8_t>(in, out.data());
  } else if (type.size == 2) {
    is_signed ? store_all<int16_t>(in, out.data()) : store_all<uint16_t>(in, out.data());
  } else if (type.size == 4) {
    is_signed ? store_all<int32_t>(in, out.data()) : store_all<uint32_t>(in, out.data());
  } else {
    is_signed ? store_all<int64_t>(in, out.data()) : store_all<uint64_t>(in, out.data());
  }
  return out;
}

}  // namespace

/// Where one chunk lies: its extent inside the volume and which of its traces are live.
struct MdioWriter::Chunk {
  std::vector<int64_t> index, extent;
  size_t number = 0;          ///< in C order of the grid
  std::vector<uint8_t> live;  ///< per trace of the chunk; 0 past the edge
  bool any_live = false;
  bool is_full = true;  ///< all traces live and none past the edge
};

MdioWriter::MdioWriter(std::string_view uri, const VolumeSpec& spec, const WriteOptions& options)
    : spec_(checked(spec)),
      shape_([&] {
        std::vector<int64_t> out;
        for (const Axis& axis : spec.axes) out.push_back(axis.size());
        return out;
      }()),
      chunk_shape_(picked_chunks(spec, shape_)),
      trace_shape_(without_last(shape_)),
      samples_(),
      grid_([&] {
        std::vector<int64_t> out;
        for (size_t i = 0; i < shape_.size(); ++i)
          out.push_back((shape_[i] + chunk_shape_[i] - 1) / chunk_shape_[i]);
        return out;
      }()),
      target_(uri, options.replace,
              options.resume_key.empty() ? "" : work_key(options.resume_key, spec)),
      statistics_(static_cast<size_t>(zarr::element_count(grid_)),
                  target_.journal() != nullptr ? static_cast<size_t>(grid_.back()) : 0),
      live_(static_cast<size_t>(zarr::element_count(trace_shape_)), 0) {
  for (const Axis& axis : spec_.axes) dimensions_.push_back(axis.name);
  const std::vector<std::string> trace_dimensions(dimensions_.begin(), dimensions_.end() - 1);
  const zarr::DataType type = sample_type_of(spec_);
  samples_ = make_array(shape_, chunk_shape_, type, marker_fill(type), dimensions_);
  if (spec_.zfp_tolerance > 0) {
    if (type.kind != zarr::Kind::kFloat)
      fail(ErrorCode::kInvalidArgument, "zfp is for float samples, not {}", spec_.sample_type);
    samples_.codecs = {};
    samples_.codecs.serializer = zarr::CodecChain::Serializer::kZfp;
    samples_.codecs.zfp_tolerance = spec_.zfp_tolerance;
    // zfp has no NaN: dead traces are zeros, and the mask says which they are.
    samples_.fill.assign(type.size, std::byte{0});
  }
  if (!spec_.shard_shape.empty()) {
    if (spec_.zarr_format != 3) fail(ErrorCode::kInvalidArgument, "shards need Zarr format 3");
    auto sharding = std::make_shared<zarr::Sharding>();
    sharding->chunk_shape = chunk_shape_;
    sharding->inner = samples_.codecs;
    sharding->index.bytes_codecs.push_back({zarr::BytesCodec::Id::kCrc32c, "crc32c"});
    bool fits = spec_.shard_shape.size() == chunk_shape_.size();
    for (size_t i = 0; fits && i < chunk_shape_.size(); ++i)
      fits = spec_.shard_shape[i] > 0 && spec_.shard_shape[i] % chunk_shape_[i] == 0;
    if (!fits)
      fail(ErrorCode::kInvalidArgument, "shards of [{}] do not hold whole chunks of [{}]",
           fmt::join(spec_.shard_shape, ", "), fmt::join(chunk_shape_, ", "));
    zarr::shard_grid(*sharding, spec_.shard_shape);
    samples_.codecs = {};
    samples_.codecs.serializer = zarr::CodecChain::Serializer::kSharding;
    samples_.codecs.sharding = std::move(sharding);
    samples_.object_shape = spec_.shard_shape;
  }
  if (spec_.trace_header_bytes > 0) {
    headers_ = make_array(trace_shape_, without_last(chunk_shape_), header_struct(), nullptr,
                          trace_dimensions);
    raw_headers_ = make_array(trace_shape_, without_last(chunk_shape_),
                              {zarr::Kind::kRaw, static_cast<uint32_t>(spec_.trace_header_bytes)},
                              nullptr, trace_dimensions);
  }
  target_.expect_objects(
      spec_.variable,
      static_cast<uint64_t>(zarr::element_count(samples_.object_shape)) * samples_.type.size);
  if (target_.journal() != nullptr) resume();
}

zarr::ArrayMetadata MdioWriter::make_array(std::vector<int64_t> shape, std::vector<int64_t> chunks,
                                           zarr::DataType type, const json& fill,
                                           std::vector<std::string> dimensions) const {
  zarr::ArrayMetadata m;
  m.format = spec_.zarr_format;
  m.v2_keys = m.format == 2;
  m.shape = std::move(shape);
  m.object_shape = std::move(chunks);
  m.type = std::move(type);
  m.fill = zarr::parse_fill_value(fill, m.type);
  m.dimension_names = std::move(dimensions);
  if (spec_.compressor != "none") {
    zarr::BytesCodec blosc{zarr::BytesCodec::Id::kBlosc, "blosc", spec_.compressor,
                           spec_.compression_level};
    blosc.shuffle = m.type.size == 1 ? 2 : 1;
    blosc.element_size = m.type.size <= 255 ? m.type.size : 1;
    m.codecs.bytes_codecs.push_back(std::move(blosc));
  }
  return m;
}

std::string MdioWriter::key_of(const std::string& name, const zarr::ArrayMetadata& metadata,
                               std::span<const int64_t> object) const {
  return name + "/" + metadata.object_key(object);
}

MdioWriter::Chunk MdioWriter::locate(std::span<const int64_t> index,
                                     std::span<const uint8_t> live) {
  const size_t rank = shape_.size();
  Chunk chunk{{index.begin(), index.end()}};
  bool inside = index.size() == rank;
  size_t rows = 1;
  for (size_t i = 0; inside && i < rank; ++i) {
    inside = index[i] >= 0 && index[i] < grid_[i];
    chunk.number = chunk.number * static_cast<size_t>(grid_[i]) + static_cast<size_t>(index[i]);
    chunk.extent.push_back(std::min(chunk_shape_[i], shape_[i] - index[i] * chunk_shape_[i]));
    if (i + 1 < rank) rows *= static_cast<size_t>(chunk_shape_[i]);
  }
  if (!inside)
    fail(ErrorCode::kOutOfRange, "no chunk [{}] in a grid of [{}]", fmt::join(index, ", "),
         fmt::join(grid_, ", "));
  if (!live.empty() && live.size() != rows)
    fail(ErrorCode::kInvalidArgument, "{} live flags for a chunk of {} traces", live.size(), rows);
  chunk.live.resize(rows);
  chunk.is_full = chunk.extent.back() == chunk_shape_.back();
  std::vector<int64_t> at(rank - 1, 0);
  for (size_t row = 0; row < rows; ++row) {
    int64_t trace = 0;
    bool exists = true;
    for (size_t i = 0; i + 1 < rank; ++i) {
      exists = exists && at[i] < chunk.extent[i];
      trace = trace * shape_[i] + index[i] * chunk_shape_[i] + at[i];
    }
    const bool is_live = exists && (live.empty() || live[row] != 0);
    chunk.live[row] = is_live;
    chunk.any_live = chunk.any_live || is_live;
    chunk.is_full = chunk.is_full && is_live;
    // Chunks above one another share their traces; each writer only ever sets the flag.
    if (is_live)
      std::atomic_ref(live_[static_cast<size_t>(trace)]).store(1, std::memory_order_relaxed);
    for (size_t i = rank - 1; i-- > 0;) {
      if (++at[i] < chunk_shape_[i]) break;
      at[i] = 0;
    }
  }
  return chunk;
}

void MdioWriter::write_chunk(std::span<const int64_t> index, std::span<const float> samples,
                             std::span<const uint8_t> live) {
  if (samples.size() != static_cast<size_t>(zarr::element_count(chunk_shape_)))
    fail(ErrorCode::kInvalidArgument, "{} samples for a chunk of [{}]", samples.size(),
         fmt::join(chunk_shape_, ", "));
  const Chunk chunk = locate(index, live);
  const zarr::DataType& type = samples_.type;
  if (type.kind == zarr::Kind::kFloat && type.size == 4)
    return put_samples(chunk, std::as_bytes(samples), samples);
  put_samples(chunk, from_floats(samples, type), samples);
}

void MdioWriter::write_chunk_raw(std::span<const int64_t> index, std::span<const std::byte> samples,
                                 std::span<const uint8_t> live) {
  const auto count = static_cast<size_t>(zarr::element_count(chunk_shape_));
  if (samples.size() != count * samples_.type.size)
    fail(ErrorCode::kInvalidArgument, "{} bytes for a chunk of [{}] {}", samples.size(),
         fmt::join(chunk_shape_, ", "), spec_.sample_type);
  const Chunk chunk = locate(index, live);
  std::vector<float> values(count);
  zarr::convert(samples, samples_.type, values);
  put_samples(chunk, samples, values);
}

void MdioWriter::put_samples(const Chunk& chunk, std::span<const std::byte> elements,
                             std::span<const float> values) {
  const auto row = static_cast<size_t>(chunk_shape_.back());
  statistics_.add(chunk.number,
                  {values, row, static_cast<size_t>(chunk.extent.back()), chunk.live});
  zarr::Bytes scratch;
  if (!chunk.is_full) {
    // Dead traces get the fill value, what lies past the edge zeros.
    scratch.assign(elements.begin(), elements.end());
    const size_t row_bytes = row * samples_.type.size;
    const size_t valid_bytes = static_cast<size_t>(chunk.extent.back()) * samples_.type.size;
    for (size_t r = 0; r < chunk.live.size(); ++r) {
      const std::span<std::byte> target = std::span(scratch).subspan(r * row_bytes, row_bytes);
      if (chunk.live[r] == 0) zarr::fill_elements(target, samples_.fill);
      std::ranges::fill(target.subspan(valid_bytes), std::byte{0});
    }
    elements = scratch;
  }
  const bool sharded = samples_.has_inner_chunks();
  if (!chunk.any_live && !sharded) return;  // an absent object reads as the fill value
  zarr::Bytes encoded;
  if (chunk.any_live)
    encoded = zarr::encode_chunk(sharded ? samples_.codecs.sharding->inner : samples_.codecs,
                                 elements, chunk_shape_, samples_.type);
  if (sharded) return put_into_shard(chunk, std::move(encoded));
  CRATON_FAULT_POINT("volume.chunk");
  target_.put(key_of(spec_.variable, samples_, chunk.index), encoded);
}

void MdioWriter::put_into_shard(const Chunk& chunk, zarr::Bytes encoded) {
  const auto per_shard = zarr::shard_grid(*samples_.codecs.sharding, samples_.object_shape);
  std::vector<int64_t> shard;
  size_t inner = 0;
  int64_t expected = 1;  // chunks of the volume in this shard
  for (size_t i = 0; i < grid_.size(); ++i) {
    shard.push_back(chunk.index[i] / per_shard[i]);
    inner = inner * static_cast<size_t>(per_shard[i]) +
            static_cast<size_t>(chunk.index[i] % per_shard[i]);
    expected *= std::min(per_shard[i], grid_[i] - shard[i] * per_shard[i]);
  }
  OpenShard complete;
  {
    std::lock_guard lock(mutex_);
    OpenShard& open = shards_[shard];
    if (open.chunks.empty()) {
      open.chunks.resize(static_cast<size_t>(zarr::element_count(per_shard)));
      open.missing = expected;
    }
    if (open.chunks[inner])
      fail(ErrorCode::kInvalidArgument, "chunk [{}] was written twice",
           fmt::join(chunk.index, ", "));
    open.chunks[inner] = std::move(encoded);
    if (--open.missing > 0) return;
    complete = std::move(open);
    shards_.erase(shard);
  }
  put_shard(shard, std::move(complete.chunks));
}

void MdioWriter::put_shard(const std::vector<int64_t>& shard,
                           std::vector<std::optional<zarr::Bytes>> chunks) {
  bool any = false;
  for (auto& chunk : chunks) {
    if (chunk && chunk->empty()) chunk.reset();  // written, but without a live trace
    any = any || chunk.has_value();
  }
  if (any)
    target_.put(key_of(spec_.variable, samples_, shard),
                zarr::encode_shard(*samples_.codecs.sharding, chunks, samples_.object_shape));
}

void MdioWriter::write_trace_headers(std::span<const int64_t> chunk,
                                     std::span<const std::byte> headers) {
  if (spec_.trace_header_bytes == 0)
    fail(ErrorCode::kInvalidArgument, "this volume was not made for trace headers");
  const auto traces = static_cast<size_t>(zarr::element_count(headers_.object_shape));
  if (headers.size() != traces * raw_headers_.type.size)
    fail(ErrorCode::kInvalidArgument, "{} bytes of trace headers for a chunk of {} traces",
         headers.size(), traces);
  bool inside = chunk.size() == trace_shape_.size();
  for (size_t i = 0; inside && i < chunk.size(); ++i) inside = chunk[i] >= 0 && chunk[i] < grid_[i];
  if (!inside)
    fail(ErrorCode::kOutOfRange, "no chunk [{}] of trace headers", fmt::join(chunk, ", "));
  zarr::Bytes structs(traces * header_struct().size);
  fill_header_structs(headers, raw_headers_.type.size, spec_.little_endian_headers, structs);
  target_.put(key_of("headers", headers_, chunk),
              zarr::encode_chunk(headers_.codecs, structs, headers_.object_shape, headers_.type));
  target_.put(key_of("raw_headers", raw_headers_, chunk),
              zarr::encode_chunk(raw_headers_.codecs, headers, raw_headers_.object_shape,
                                 raw_headers_.type));
}

void MdioWriter::set_segy_file_header(const SegyFileHeader& header) { segy_header_ = header; }

void MdioWriter::set_attribute(std::string_view name, std::string_view text) {
  json value = json::parse(text, nullptr, false);
  if (value.is_discarded())
    fail(ErrorCode::kInvalidArgument, "attribute \"{}\" is no JSON: {}", name, text.substr(0, 80));
  std::lock_guard lock(mutex_);
  free_attributes_[std::string(name)] = std::move(value);
}

}  // namespace mdio

std::unique_ptr<VolumeWriter> create_volume(std::string_view uri, const VolumeSpec& spec,
                                            const WriteOptions& options) {
  return std::make_unique<mdio::MdioWriter>(uri, spec, options);
}

std::unique_ptr<VolumeWriter> create_volume(std::string_view uri, const VolumeSpec& spec,
                                            bool replace) {
  return create_volume(uri, spec, WriteOptions{replace, ""});
}

}  // namespace craton::volume
