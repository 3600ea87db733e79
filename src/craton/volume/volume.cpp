#include "craton/volume/volume.h"

#include <algorithm>
#include <cmath>

#include "craton/base/error.h"
#include "craton/volume/zarr/data_type.h"

namespace craton::volume {

double Statistics::standard_deviation() const {
  if (count <= 0) return 0;
  const double n = static_cast<double>(count);
  return std::sqrt(std::max(0.0, sum_squares / n - (sum / n) * (sum / n)));
}

std::vector<int64_t> VolumeInfo::shape() const {
  std::vector<int64_t> out;
  for (const Axis& axis : axes) out.push_back(axis.size());
  return out;
}

std::vector<double> NamedArray::numbers() const {
  const zarr::DataType data_type = zarr::data_type_from_name(type);
  std::vector<double> out(bytes.size() / data_type.size);
  zarr::convert(bytes, data_type, out);
  return out;
}

void Volume::read_chunks(std::span<const std::vector<int64_t>> chunks,
                         std::span<const std::span<float>> targets, const store::ReadLimits&,
                         const std::function<void(size_t i)>& done) const {
  for (size_t i = 0; i < chunks.size(); ++i) {
    read_chunk(chunks[i], targets[i]);
    done(i);
  }
}

void Volume::read_raw(std::span<const int64_t>, std::span<const int64_t>,
                      std::span<std::byte>) const {
  fail(ErrorCode::kUnsupported, "{} gives its samples only as float", info().uri);
}

void Volume::read_trace_headers(std::span<const int64_t>, std::span<const int64_t>,
                                std::span<std::byte>) const {
  fail(ErrorCode::kNotFound, "{} has no raw trace headers", info().uri);
}

void VolumeWriter::write_chunk_raw(std::span<const int64_t>, std::span<const std::byte>,
                                   std::span<const uint8_t>) {
  fail(ErrorCode::kUnsupported, "this writer takes samples only as float");
}

void VolumeWriter::write_trace_headers(std::span<const int64_t>, std::span<const std::byte>) {
  fail(ErrorCode::kUnsupported, "this writer keeps no trace headers");
}

void VolumeWriter::set_segy_file_header(const SegyFileHeader&) {
  fail(ErrorCode::kUnsupported, "this writer keeps no SEG-Y file header");
}

void VolumeWriter::write_array(std::string_view name, const NamedArray&, std::string_view) {
  fail(ErrorCode::kUnsupported, "this writer has no place for the array \"{}\"", name);
}

std::optional<std::string> VolumeWriter::finished_column(std::span<const int64_t>) const {
  return std::nullopt;
}

void VolumeWriter::finish_column(std::span<const int64_t>, std::string_view) {}

std::vector<int64_t> default_chunk_shape(std::span<const int64_t> shape) {
  const int64_t edge = shape.size() >= 3 ? 64 : 512;
  std::vector<int64_t> out;
  for (int64_t n : shape) out.push_back(std::clamp<int64_t>(n, 1, edge));
  return out;
}

}  // namespace craton::volume
