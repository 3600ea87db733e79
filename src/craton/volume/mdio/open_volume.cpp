#include <algorithm>
#include <cmath>
#include <filesystem>
#include <system_error>

#include "craton/base/error.h"
#include "craton/base/log.h"
#include "craton/store/object_store.h"
#include "craton/volume/mdio/array_volume.h"

namespace craton::volume {

namespace mdio {

using nlohmann::json;

namespace {

/// The fill value of samples that were never written is a marker in MDIO (NaN, the largest
/// integer): they read as 0.
std::shared_ptr<zarr::Array> with_zero_fill(const zarr::Hierarchy& hierarchy,
                                            const zarr::Array& array) {
  zarr::ArrayMetadata metadata = array.metadata();
  std::ranges::fill(metadata.fill, std::byte{0});
  return std::make_shared<zarr::Array>(hierarchy.store(), array.path(), std::move(metadata));
}

bool fill_is_nan(const zarr::ArrayMetadata& metadata) {
  double fill;
  zarr::convert(metadata.fill, metadata.type, std::span<double>(&fill, 1));
  return std::isnan(fill);
}

[[noreturn]] void no_variable(const zarr::Hierarchy& hierarchy, std::string_view variable) {
  std::string names;
  for (const std::string& path : hierarchy.list_arrays())
    names += (names.empty() ? "" : ", ") + path;
  fail(ErrorCode::kNotFound, "{} has no array \"{}\"; it has {}", hierarchy.store()->uri(),
       variable, names.empty() ? "none" : names);
}

/// The largest array of numbers with at least two axes (else with one): what a volume without a
/// hint most likely is.
std::string largest_array(const zarr::Hierarchy& hierarchy, std::string& complaints) {
  std::string best;
  bool found = false;
  std::pair<bool, int64_t> best_size{false, -1};
  for (const std::string& path : hierarchy.list_arrays()) {
    try {
      const auto metadata = hierarchy.array_metadata(path);
      if (!metadata || !metadata->type.is_number() || metadata->type.kind == zarr::Kind::kBool ||
          metadata->rank() == 0)
        continue;
      const std::pair size{metadata->rank() >= 2, zarr::element_count(metadata->shape)};
      if (found && size <= best_size) continue;
      found = true;
      best = path;
      best_size = size;
    } catch (const Error& e) {
      complaints += fmt::format("; {}", e.what());
    }
  }
  if (!found) complaints = "no array of numbers" + complaints;
  return best;
}

std::string parent_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == path.npos ? "" : path.substr(0, slash + 1);
}

void read_axes(const zarr::Hierarchy& hierarchy, const zarr::Array& samples, VolumeInfo& info) {
  const auto& metadata = samples.metadata();
  const std::string folder = parent_of(samples.path());
  for (size_t i = 0; i < metadata.rank(); ++i) {
    std::string name = i < metadata.dimension_names.size() ? metadata.dimension_names[i] : "";
    const bool is_plain_name =
        !name.empty() && name.find('/') == name.npos && name != "." && name != "..";
    const std::string path = is_plain_name && !hierarchy.root_is_array() ? folder + name : "";
    if (name.empty()) name = fmt::format("axis{}", i);
    info.axes.push_back(read_axis(hierarchy, path, name, metadata.shape[i]));
  }
}

}  // namespace

std::shared_ptr<const Volume> open_mdio_v0(const zarr::Hierarchy& hierarchy,
                                           std::string_view variable) {
  if (hierarchy.format() != 2) return nullptr;
  const json attributes = hierarchy.attributes("");
  const json dimensions = attributes.value("dimension", json());
  if (!dimensions.is_array() || dimensions.empty()) return nullptr;
  VolumeParts parts;
  parts.info.uri = hierarchy.store()->uri();
  parts.info.format = "MDIO v0 (Zarr v2)";
  parts.info.attributes = "{}";
  parts.array_prefix = "metadata/";
  // Arrays are named after the axes that are chunked; the one chunked along all axes comes first.
  std::string all, name(variable);
  for (size_t i = 0; i < dimensions.size(); ++i) all += std::to_string(i);
  if (name.empty()) name = "chunked_" + all;
  if (!name.starts_with("data/")) name = "data/" + name;
  parts.samples = hierarchy.open_array(name);
  if (!parts.samples && variable.empty()) {
    for (const std::string& path : hierarchy.list_arrays())
      if (!parts.samples && path.starts_with("data/chunked_"))
        parts.samples = hierarchy.open_array(path);
  }
  if (!parts.samples) no_variable(hierarchy, variable.empty() ? name : variable);
  describe_samples(*parts.samples, parts.info);
  const auto& shape = parts.samples->metadata().shape;
  if (shape.size() != dimensions.size())
    fail(ErrorCode::kCorrupt, "{}: {} dimensions in .zattrs for an array with {} axes",
         parts.info.uri, dimensions.size(), shape.size());
  for (size_t i = 0; i < shape.size(); ++i) {
    const json& dimension = dimensions[i];
    if (!dimension.is_object() || !dimension.contains("name") || !dimension["name"].is_string() ||
        !dimension.contains("coords") || !dimension["coords"].is_array() ||
        dimension["coords"].size() != static_cast<size_t>(shape[i]))
      fail(ErrorCode::kCorrupt, "{}: dimension {} in .zattrs does not fit an axis of {}",
           parts.info.uri, i, shape[i]);
    Axis axis{dimension["name"].get<std::string>(), i + 1 == shape.size() ? "ms" : ""};
    for (const json& coordinate : dimension["coords"]) {
      if (!coordinate.is_number())
        fail(ErrorCode::kCorrupt, "{}: dimension \"{}\" in .zattrs has the coordinate {}",
             parts.info.uri, axis.name, coordinate.dump().substr(0, 40));
      axis.coordinates.push_back(coordinate.get<double>());
    }
    parts.info.axes.push_back(std::move(axis));
  }
  const auto number = [&](const char* key) {
    return attributes.contains(key) && attributes[key].is_number() ? attributes[key].get<double>()
                                                                   : 0.0;
  };
  // The store keeps no count of nonzero samples; with any count, mean and deviation come out as
  // stored.
  const auto count =
      static_cast<int64_t>(std::clamp(number("trace_count"), 0.0, 9e12)) * shape.back();
  const double n = static_cast<double>(count), rms = number("rms");
  parts.info.statistics = {count, number("mean") * n, rms * rms * n, number("min"), number("max")};
  if (const auto mask = hierarchy.open_array("metadata/live_mask"))
    parts.live = read_mask(*mask, std::span(shape).first(shape.size() - 1));
  return std::make_shared<ArrayVolume>(hierarchy, std::move(parts));
}

std::shared_ptr<const Volume> open_mdio_v1(const zarr::Hierarchy& hierarchy,
                                           std::string_view variable) {
  if (hierarchy.root_is_array()) return nullptr;
  const json root = hierarchy.attributes("");
  const json free = root.value("attributes", json::object());
  const bool has_default = free.is_object() && free.contains("defaultVariableName") &&
                           free["defaultVariableName"].is_string();
  if (!has_default && !root.contains("apiVersion")) return nullptr;
  VolumeParts parts;
  VolumeInfo& info = parts.info;
  info.uri = hierarchy.store()->uri();
  info.format = fmt::format("MDIO v1 (Zarr v{})", hierarchy.format());
  if (root.contains("name") && root["name"].is_string())
    info.name = root["name"].get<std::string>();
  info.attributes = free.is_object() ? free.dump() : "{}";
  std::string name(variable);
  if (name.empty())
    name = has_default ? free["defaultVariableName"].get<std::string>() : "amplitude";
  auto samples = hierarchy.open_array(name);
  if (!samples && variable.empty()) {
    std::string complaints;
    const std::string largest = largest_array(hierarchy, complaints);
    if (!largest.empty()) samples = hierarchy.open_array(largest);
  }
  if (!samples) no_variable(hierarchy, name);
  describe_samples(*samples, info);
  read_axes(hierarchy, *samples, info);
  info.statistics = parse_statistics(samples->metadata().attributes.value("statsV1", json()));
  const auto& shape = samples->metadata().shape;
  if (const auto mask = hierarchy.open_array("trace_mask")) {
    parts.live = read_mask(*mask, std::span(shape).first(shape.size() - 1));
  } else {
    parts.nan_means_dead = fill_is_nan(samples->metadata());
  }
  parts.samples = with_zero_fill(hierarchy, *samples);
  try {
    auto headers = hierarchy.open_array("raw_headers");
    if (headers && headers->metadata().type.kind == zarr::Kind::kRaw &&
        std::ranges::equal(headers->metadata().shape, std::span(shape).first(shape.size() - 1)))
      parts.trace_headers = std::move(headers);
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kUnsupported) throw;
    log_warning("{}: the raw trace headers are left out: {}", info.uri, e.what());
  }
  return std::make_shared<ArrayVolume>(hierarchy, std::move(parts));
}

std::shared_ptr<const Volume> open_plain(const zarr::Hierarchy& hierarchy,
                                         std::string_view variable) {
  VolumeParts parts;
  VolumeInfo& info = parts.info;
  info.uri = hierarchy.store()->uri();
  info.format = fmt::format("Zarr v{}", hierarchy.format());
  info.attributes = hierarchy.attributes("").dump();
  std::string path(variable);
  if (path.empty() && !hierarchy.root_is_array()) {
    std::string complaints;
    path = largest_array(hierarchy, complaints);
    if (path.empty()) fail(ErrorCode::kNotFound, "{} holds no volume: {}", info.uri, complaints);
  }
  auto samples = hierarchy.open_array(path);
  if (!samples) no_variable(hierarchy, path);
  info.name = path;
  describe_samples(*samples, info);
  read_axes(hierarchy, *samples, info);
  info.statistics = parse_statistics(samples->metadata().attributes.value("statsV1", json()));
  parts.nan_means_dead = fill_is_nan(samples->metadata());
  parts.samples = parts.nan_means_dead ? with_zero_fill(hierarchy, *samples) : samples;
  parts.array_prefix = parent_of(path);
  return std::make_shared<ArrayVolume>(hierarchy, std::move(parts));
}

namespace {

std::shared_ptr<const Volume> open_any(std::shared_ptr<store::ObjectStore> store,
                                       std::string_view variable) {
  const std::string uri = store->uri();
  const zarr::Hierarchy hierarchy(std::move(store));
  if (hierarchy.format() == 0)
    fail(ErrorCode::kNotFound,
         "there is no volume at {}: found none of zarr.json, .zmetadata, .zgroup, .zarray", uri);
  if (auto volume = open_mdio_v0(hierarchy, variable)) return volume;
  if (auto volume = open_mdio_v1(hierarchy, variable)) return volume;
  return open_plain(hierarchy, variable);
}

}  // namespace

}  // namespace mdio

std::shared_ptr<const Volume> open_volume(std::shared_ptr<store::ObjectStore> store,
                                          std::string_view variable) {
  const std::string uri = store->uri();
  try {
    return mdio::open_any(std::move(store), variable);
  } catch (const nlohmann::json::exception& e) {
    fail(ErrorCode::kCorrupt, "{}: metadata with an entry of the wrong kind: {}", uri, e.what());
  }
}

std::shared_ptr<const Volume> open_volume(std::string_view uri, std::string_view variable,
                                          const store::CachePolicy& cache) {
  const std::string path(uri.starts_with("file://") ? uri.substr(7) : uri);
  std::error_code ignored;
  if (path.find("://") == path.npos) {
    if (std::filesystem::is_regular_file(path, ignored))
      fail(ErrorCode::kInvalidArgument,
           "{} is a file, not a volume; `craton volume ingest` makes a volume of a SEG-Y file",
           path);
    if (!std::filesystem::exists(path, ignored))
      fail(ErrorCode::kNotFound, "there is no volume at {}", path);
  }
  return open_volume(store::open_store(uri, cache), variable);
}

}  // namespace craton::volume
