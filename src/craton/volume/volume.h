#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "craton/store/cache/cache_policy.h"
#include "craton/store/object_store.h"

namespace craton::volume {

/// One dimension of a survey. 3D: inline, crossline, time|depth; 2D: cdp, time|depth; prestack:
/// ..., offset|angle, time|depth.
struct Axis {
  std::string name;
  std::string unit;                 ///< "ms", "m", "ft" or ""
  std::vector<double> coordinates;  ///< one per index, e.g. inline numbers or milliseconds; may
                                    ///< have an irregular step
  int64_t size() const { return static_cast<int64_t>(coordinates.size()); }
};

/// Over live, nonzero samples (as MDIO's statsV1).
struct Statistics {
  int64_t count = 0;
  double sum = 0, sum_squares = 0, min = 0, max = 0;
  std::vector<double> histogram_centers;
  std::vector<int64_t> histogram_counts;
  double mean() const { return count > 0 ? sum / static_cast<double>(count) : 0; }
  double standard_deviation() const;
};

struct VolumeInfo {
  std::string uri;
  std::string name;
  std::string format;      ///< "MDIO v1 (Zarr v3)", "MDIO v0 (Zarr v2)", "Zarr v3", ...
  std::vector<Axis> axes;  ///< in array order; the last is the sample axis
  std::vector<int64_t>
      chunk_shape;  ///< what decodes together: the inner chunk where chunks lie in shards
  std::vector<int64_t> shard_shape;  ///< empty without shards
  std::string sample_type;           ///< as stored: "float32", "int16", ...
  std::string codec;                 ///< "blosc zstd", "zfp", "none", ...; for people
  std::string attributes;  ///< JSON object: the store's free attributes (MDIO's root attributes)
  Statistics statistics;   ///< count 0 when the store has none
  std::vector<int64_t> shape() const;
};

/// A small array beside the samples, e.g. cdp_x, or what SEG-Y export needs.
struct NamedArray {
  std::string type;  ///< Zarr v3 name: "float64", "int32", "uint8", "bool", ...
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;  ///< little-endian, C order
  std::vector<double> numbers() const;
};

/// What a SEG-Y file holds besides traces. Only what is there is filled in.
struct SegyFileHeader {
  std::string text;                     ///< 40 lines joined by "\n", readable
  std::string binary;                   ///< JSON object of the named binary-header values
  std::vector<std::byte> raw_text;      ///< 3200 bytes as in the file
  std::vector<std::byte> raw_binary;    ///< 400 bytes as in the file
  std::vector<std::byte> raw_extended;  ///< extended text headers as in the file
  std::vector<std::byte> raw_trailer;   ///< what follows the last trace
  std::string
      more;  ///< JSON object: whatever else an export needs (byte order, format code, trace order)
};

/// A survey as a chunked array of samples, seen as float. Reading is thread-safe.
/// Samples of dead traces and of missing chunks read as 0 (a plain Zarr array's finite fill value
/// is kept); every other fault is an Error with the key.
class Volume {
 public:
  virtual ~Volume() = default;
  virtual const VolumeInfo& info() const = 0;

  /// Fills `out` (C order, product(shape) floats) from `origin`; the block must lie inside the
  /// volume.
  virtual void read(std::span<const int64_t> origin, std::span<const int64_t> shape,
                    std::span<float> out) const = 0;

  /// Decodes the one chunk with this grid index into `out` (product(info().chunk_shape) floats;
  /// padding past the edge is 0).
  virtual void read_chunk(std::span<const int64_t> chunk, std::span<float> out) const = 0;

  /// As `read_chunk` for many by one plan (zarr/array.h): requests are in flight together, and
  /// `done(i)` is called on this thread as soon as targets[i] is filled, in any order. The first
  /// failure ends it.
  virtual void read_chunks(std::span<const std::vector<int64_t>> chunks,
                           std::span<const std::span<float>> targets,
                           const store::ReadLimits& limits,
                           const std::function<void(size_t i)>& done) const;

  /// One byte per trace (all axes but the last, C order): 1 = live.
  virtual const std::vector<uint8_t>& live() const = 0;

  /// As `read`, but in the stored type (info().sample_type, little-endian). Dead traces are zeros.
  virtual void read_raw(std::span<const int64_t> origin, std::span<const int64_t> shape,
                        std::span<std::byte> out) const;
  /// Bytes per trace of the raw trace headers; 0 when the store has none.
  virtual size_t trace_header_bytes() const { return 0; }
  /// The raw trace headers of a block of traces (all axes but the last) as they were in the file;
  /// dead traces are zeros.
  virtual void read_trace_headers(std::span<const int64_t> origin, std::span<const int64_t> shape,
                                  std::span<std::byte> out) const;
  virtual std::optional<SegyFileHeader> segy_file_header() const { return std::nullopt; }
  /// Another array of the store, whole; nullopt when there is none of that name.
  virtual std::optional<NamedArray> read_array(std::string_view name) const { return std::nullopt; }
};

/// Opens an MDIO v0/v1 or Zarr v2/v3 store; `variable` picks another array than the default one.
/// With a cache, all that is read goes through it. kNotFound, kCorrupt or kUnsupported name what is
/// wrong.
std::shared_ptr<const Volume> open_volume(std::string_view uri, std::string_view variable = "",
                                          const store::CachePolicy& cache = {});
/// The same in a store that is open.
std::shared_ptr<const Volume> open_volume(std::shared_ptr<store::ObjectStore> store,
                                          std::string_view variable = "");

struct VolumeSpec {
  std::string name;  ///< MDIO template, e.g. "PostStack3DTime"
  std::string survey_type = "3D";
  std::string variable = "amplitude";
  std::vector<Axis> axes;
  std::vector<int64_t> chunk_shape;  ///< empty: 64 per axis, 512 x 512 in 2D (clipped to the shape)
  std::string compressor = "zstd";   ///< "zstd", "lz4" (both in blosc) or "none"
  int compression_level = 3;
  std::vector<double> cdp_x,
      cdp_y;  ///< C order over all axes but the last, or over the first ones (prestack); or empty

  std::string sample_type =
      "float32";            ///< or "float64", "int8", "int16", "int32", "uint8", "uint16", "uint32"
  std::string sample_unit;  ///< of the samples' values, or empty
  double zfp_tolerance = 0;          ///< > 0: lossy, no sample is off by more (float types)
  int zarr_format = 3;               ///< 2 writes consolidated metadata
  std::vector<int64_t> shard_shape;  ///< a multiple of chunk_shape, or empty; Zarr v3 only
  int64_t trace_header_bytes =
      0;  ///< 240 (more with rev 2 extensions) keeps `raw_headers` and the typed `headers`; 0 none
  bool little_endian_headers = false;  ///< the byte order of these headers
};

/// Writes an MDIO v1 store. Nothing is visible at `uri` before `finish`; destroyed without it,
/// nothing is left.
class VolumeWriter {
 public:
  virtual ~VolumeWriter() = default;

  /// Writes one whole chunk (product(chunk_shape) floats, C order, padded past the edge). Dead
  /// samples are NaN on disk: `live` per trace of the chunk (product of chunk_shape without the
  /// last axis), empty = all live. Thread-safe for different chunks. Updates the statistics.
  virtual void write_chunk(std::span<const int64_t> chunk, std::span<const float> samples,
                           std::span<const uint8_t> live = {}) = 0;

  /// As `write_chunk` with elements of VolumeSpec::sample_type: exact where float is not. Dead
  /// samples are overwritten by the fill value.
  virtual void write_chunk_raw(std::span<const int64_t> chunk, std::span<const std::byte> samples,
                               std::span<const uint8_t> live = {});

  /// The trace headers of one chunk of traces (the grid index without the sample axis):
  /// trace_header_bytes each, product of the chunk shape's leading axes, padded past the edge.
  /// Thread-safe for different chunks.
  virtual void write_trace_headers(std::span<const int64_t> chunk,
                                   std::span<const std::byte> headers);
  virtual void set_segy_file_header(const SegyFileHeader& header);
  /// Another array, whole; its name may not be taken. `attributes` is a JSON object or empty.
  virtual void write_array(std::string_view name, const NamedArray& array,
                           std::string_view attributes = "");
  /// A free attribute of the store: `json` is any JSON value.
  virtual void set_attribute(std::string_view name, std::string_view json) = 0;

  /// For a writer with WriteOptions::resume_key: the note of a chunk column (the grid index without
  /// the sample axis) that an earlier run has finished; nothing of it need be written again. Else
  /// nullopt.
  virtual std::optional<std::string> finished_column(std::span<const int64_t> column) const;
  /// All chunks and trace headers of this column are written: with a resume key a later run may
  /// rely on them, and gets `note` (any bytes) back. Thread-safe for different columns.
  virtual void finish_column(std::span<const int64_t> column, std::string_view note);

  virtual void finish() = 0;
};

struct WriteOptions {
  bool replace = false;  ///< an existing store gives way once the new one is complete
  /// One line that stands for all that the samples come from. If set, and the volume goes to a file
  /// system, what a killed or failed writer has finished stays in URI.partial, and the next writer
  /// with the same key, specification and URI goes on from there; one with others starts anew.
  std::string resume_key;
};

std::unique_ptr<VolumeWriter> create_volume(std::string_view uri, const VolumeSpec& spec,
                                            const WriteOptions& options);
std::unique_ptr<VolumeWriter> create_volume(std::string_view uri, const VolumeSpec& spec,
                                            bool replace = false);

/// The chunk shape that create_volume picks for an empty VolumeSpec::chunk_shape.
std::vector<int64_t> default_chunk_shape(std::span<const int64_t> shape);

}  // namespace craton::volume
