#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "craton/volume/volume.h"
#include "craton/volume/zarr/array.h"
#include "craton/volume/zarr/hierarchy.h"

namespace craton::volume::mdio {

/// Where the parts of a volume lie in its store; the readers of each layout fill it in.
struct VolumeParts {
  VolumeInfo info;
  std::shared_ptr<zarr::Array> samples;
  std::shared_ptr<zarr::Array> trace_headers;  ///< raw bytes per trace, or null
  std::vector<uint8_t> live;                   ///< empty: no mask, all traces are live
  bool nan_means_dead = false;  ///< no mask, and NaN is the fill value: NaN reads as 0
  std::string array_prefix;     ///< where read_array looks, "" or "metadata/"
};

/// A volume whose samples are one Zarr array.
class ArrayVolume final : public Volume {
 public:
  ArrayVolume(zarr::Hierarchy hierarchy, VolumeParts parts);

  const VolumeInfo& info() const override { return parts_.info; }
  void read(std::span<const int64_t> origin, std::span<const int64_t> shape,
            std::span<float> out) const override;
  void read_chunk(std::span<const int64_t> chunk, std::span<float> out) const override;
  void read_chunks(std::span<const std::vector<int64_t>> chunks,
                   std::span<const std::span<float>> targets, const store::ReadLimits& limits,
                   const std::function<void(size_t i)>& done) const override;
  const std::vector<uint8_t>& live() const override { return parts_.live; }
  void read_raw(std::span<const int64_t> origin, std::span<const int64_t> shape,
                std::span<std::byte> out) const override;
  size_t trace_header_bytes() const override;
  void read_trace_headers(std::span<const int64_t> origin, std::span<const int64_t> shape,
                          std::span<std::byte> out) const override;
  std::optional<SegyFileHeader> segy_file_header() const override;
  std::optional<NamedArray> read_array(std::string_view name) const override;

 private:
  void finish_chunk(std::span<const int64_t> chunk, std::span<float> out) const;
  void clear_dead(std::span<const int64_t> origin, std::span<const int64_t> shape,
                  std::span<std::byte> out, size_t trace_bytes) const;

  zarr::Hierarchy hierarchy_;
  VolumeParts parts_;
  bool all_live_ = true;
  bool is_float_ = false;
};

/// Readers of the layouts. nullptr when the store is not of that kind.
std::shared_ptr<const Volume> open_mdio_v0(const zarr::Hierarchy& hierarchy,
                                           std::string_view variable);
std::shared_ptr<const Volume> open_mdio_v1(const zarr::Hierarchy& hierarchy,
                                           std::string_view variable);
/// Any Zarr array; throws when there is none that could be a volume.
std::shared_ptr<const Volume> open_plain(const zarr::Hierarchy& hierarchy,
                                         std::string_view variable);

/// A 1-D coordinate array of `size` elements, or 0, 1, 2, ... when there is none that can be read.
Axis read_axis(const zarr::Hierarchy& hierarchy, const std::string& path, const std::string& name,
               int64_t size);
/// Fills what follows from the samples' array: shapes, type, codec.
void describe_samples(const zarr::Array& samples, VolumeInfo& info);
/// One byte per trace from a bool (or integer) array of `traces` elements.
std::vector<uint8_t> read_mask(const zarr::Array& mask, std::span<const int64_t> trace_shape);
/// MDIO's statsV1: an object, a string that holds one, or a list of them.
Statistics parse_statistics(const nlohmann::json& value);
nlohmann::json to_json(const Statistics& statistics);

}  // namespace craton::volume::mdio
