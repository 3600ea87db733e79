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
};

/// Writes an MDIO v1 store (Zarr v3). Nothing is visible at `uri` before `finish`; destroyed without it, nothing is left.
class VolumeWriter {
 public:
  virtual ~VolumeWriter() = default;

  /// Writes one whole chunk (product(chunk_shape) floats, C order, padded past the edge). Dead samples are NaN on disk: `live` per trace
  /// of the chunk (product of chunk_shape without the last axis), empty = all live. Thread-safe for different chunks. Updates the statistics.
  virtual void write_chunk(std::span<const int64_t> chunk, std::span<const float> samples, std::span<const uint8_t> live = {}) = 0;

  /// Headers and text for SEG-Y round trips; see volume/segy. All optional.
  virtual void set_attribute(std::string_view name, std::string_view json) = 0;

  virtual void finish() = 0;
};

std::unique_ptr<VolumeWriter> create_volume(std::string_view uri, const VolumeSpec& spec, bool replace = false);

/// The chunk shape that create_volume picks for an empty VolumeSpec::chunk_shape.
std::vector<int64_t> default_chunk_shape(std::span<const int64_t> shape);

}  // namespace craton::volume
