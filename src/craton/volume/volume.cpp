#include "craton/volume/volume.h"

#include <algorithm>
#include <cmath>

#include "craton/base/error.h"

namespace craton::volume {

namespace {

int64_t type_bytes(std::string_view type) {
  if (type.ends_with("64")) return 8;
  if (type.ends_with("32")) return 4;
  if (type.ends_with("16")) return 2;
  return 1;
}

}  // namespace

int64_t TraceArray::record_bytes() const {
  if (fields.empty()) return row_bytes;
  int64_t bytes = 0;
  for (const RecordField& field : fields) bytes += type_bytes(field.type);
  return bytes;
}

void Volume::read_trace_array(std::string_view name, std::span<const int64_t>, std::span<const int64_t>,
                              std::span<std::byte>) const {
  fail(ErrorCode::kNotFound, "{} has no array '{}'", info().uri, name);
}

void Volume::read_int32(std::span<const int64_t>, std::span<const int64_t>, std::span<int32_t>) const {
  fail(ErrorCode::kUnsupported, "the samples of {} are {}, not int32", info().uri, sample_type());
}

void VolumeWriter::write_chunk_int32(std::span<const int64_t>, std::span<const int32_t>, std::span<const uint8_t>) {
  fail(ErrorCode::kUnsupported, "this store cannot hold int32 samples");
}

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

std::vector<int64_t> default_chunk_shape(std::span<const int64_t> shape) {
  const int64_t edge = shape.size() >= 3 ? 64 : 512;
  std::vector<int64_t> out;
  for (int64_t n : shape) out.push_back(std::clamp<int64_t>(n, 1, edge));
  return out;
}

}  // namespace craton::volume
