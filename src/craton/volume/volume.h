#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace craton::volume {

/// One dimension of a survey. 3D: inline, crossline, time|depth; 2D: cdp, time|depth; prestack: ..., offset|angle, time|depth.
struct Axis {
  std::string name;
  std::string unit;                 ///< "ms", "m", "ft" or ""
  std::vector<double> coordinates;  ///< one per index, e.g. inline numbers or milliseconds; may have an irregular step
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
  std::string format;               ///< "MDIO v1 (Zarr v3)", "MDIO v0 (Zarr v2)", "Zarr v3", ...
  std::vector<Axis> axes;           ///< in array order; the last is the sample axis
  std::vector<int64_t> chunk_shape;
  Statistics statistics;            ///< count 0 when the store has none
  std::vector<int64_t> shape() const;
};

/// One member of a packed little-endian record. `type` is "int8" .. "int64", "uint8" .. "uint64", "float32" or "float64".
struct RecordField {
  std::string name;
  std::string type;
};

/// An array beside the samples with one record per trace ("headers", "raw_headers"), chunked like the samples without their last axis.
struct TraceArray {
  std::string name;
  std::vector<RecordField> fields;  ///< a struct array; empty: rows of plain bytes, stored as uint8 with one more axis (never cut)
  int64_t row_bytes = 0;            ///< bytes of a row when `fields` is empty
  int64_t record_bytes() const;
};

/// A survey as a chunked array of float samples. Reading is thread-safe.
/// Samples of dead traces and of missing chunks read as 0; every other fault is an Error with the key.
class Volume {
 public:
  virtual ~Volume() = default;
  virtual const VolumeInfo& info() const = 0;

  /// Fills `out` (C order, product(shape) floats) from `origin`; the block must lie inside the volume.
  virtual void read(std::span<const int64_t> origin, std::span<const int64_t> shape, std::span<float> out) const = 0;

  /// Decodes the one chunk with this grid index into `out` (product(info().chunk_shape) floats; padding past the edge is 0).
  virtual void read_chunk(std::span<const int64_t> chunk, std::span<float> out) const = 0;

  /// One byte per trace (all axes but the last, C order): 1 = live.
  virtual const std::vector<uint8_t>& live() const = 0;

  /// What a round trip to SEG-Y needs; a store that has none of it answers with nothing.
  /// The attributes of `segy_file_header` as a JSON object, or "".
  virtual std::string file_header() const { return {}; }
  /// The root attribute of this name as JSON, or "".
  virtual std::string attribute(std::string_view name) const { return {}; }
  /// The trace array of this name (e.g. "raw_headers"), if the store has it.
  virtual std::optional<TraceArray> trace_array(std::string_view name) const { return std::nullopt; }
  /// Fills `out` with product(shape) records of the traces from `origin` (both without the sample axis), C order.
  virtual void read_trace_array(std::string_view name, std::span<const int64_t> origin, std::span<const int64_t> shape,
                                std::span<std::byte> out) const;
  /// All bytes of a table (see VolumeWriter::write_table); nullopt when there is none of this name.
  virtual std::optional<std::vector<std::byte>> read_table(std::string_view name) const { return std::nullopt; }
  /// "float32", or "int32" where the samples are stored as integers.
  virtual std::string sample_type() const { return "float32"; }
  /// As `read`, without going through float; only for sample_type() "int32".
  virtual void read_int32(std::span<const int64_t> origin, std::span<const int64_t> shape, std::span<int32_t> out) const;
};

/// Opens an MDIO v0/v1 or Zarr v2/v3 store; `variable` picks another array than the default one. kNotFound, kCorrupt or kUnsupported name what is wrong.
std::shared_ptr<const Volume> open_volume(std::string_view uri, std::string_view variable = "");

struct VolumeSpec {
  std::string name;                  ///< MDIO template, e.g. "PostStack3DTime"
  std::string survey_type = "3D";
  std::string variable = "amplitude";
  std::vector<Axis> axes;
  std::vector<int64_t> chunk_shape;  ///< empty: 64 per axis, 512 x 512 in 2D (clipped to the shape)
  std::string compressor = "zstd";   ///< "zstd", "lz4" (both in blosc) or "none"
  int compression_level = 3;
  std::vector<double> cdp_x, cdp_y;  ///< per trace in C order, or empty
  std::string sample_type = "float32";   ///< or "int32": SEG-Y format 2 keeps its bits; dead traces are 0 then
  std::vector<TraceArray> trace_arrays;  ///< written with write_trace_chunk
};

/// Writes an MDIO v1 store (Zarr v3). Nothing is visible at `uri` before `finish`; destroyed without it, nothing is left.
class VolumeWriter {
 public:
  virtual ~VolumeWriter() = default;

  /// Writes one whole chunk (product(chunk_shape) floats, C order, padded past the edge). Dead samples are NaN on disk: `live` per trace
  /// of the chunk (product of chunk_shape without the last axis), empty = all live. Thread-safe for different chunks. Updates the statistics.
  virtual void write_chunk(std::span<const int64_t> chunk, std::span<const float> samples, std::span<const uint8_t> live = {}) = 0;

  /// The same for sample_type "int32".
  virtual void write_chunk_int32(std::span<const int64_t> chunk, std::span<const int32_t> samples,
                                 std::span<const uint8_t> live = {});

  /// Headers and text for SEG-Y round trips; see volume/segy. All optional.
  virtual void set_attribute(std::string_view name, std::string_view json) = 0;
  /// Writes the 0-d string array `segy_file_header` with these attributes (a JSON object: textHeader, binaryHeader, rawBinaryHeader, ...).
  virtual void set_file_header(std::string_view json_attributes) {}
  /// One chunk of a trace array: product(chunk_shape without the sample axis) records, padded past the edge. Thread-safe for different chunks.
  virtual void write_trace_chunk(std::string_view name, std::span<const int64_t> chunk, std::span<const std::byte> records) {}
  /// A one-dimensional array of records, whole: the few words that a round trip needs beside the samples.
  virtual void write_table(std::string_view name, std::span<const RecordField> fields, std::span<const std::byte> records) {}

  virtual void finish() = 0;
};

std::unique_ptr<VolumeWriter> create_volume(std::string_view uri, const VolumeSpec& spec, bool replace = false);

/// The chunk shape that create_volume picks for an empty VolumeSpec::chunk_shape.
std::vector<int64_t> default_chunk_shape(std::span<const int64_t> shape);

}  // namespace craton::volume
