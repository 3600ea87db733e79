#pragma once

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "craton/store/object_store.h"
#include "craton/volume/zarr/array.h"

namespace craton::volume::zarr {

/// The groups and arrays of one Zarr store, v2 or v3, with consolidated metadata where there are
/// any. Nothing is read of an array before it is opened, so one that this build cannot read does
/// not disturb the others.
class Hierarchy {
 public:
  /// Reads the root's metadata. `format()` is 0 when there is no Zarr node at the root.
  explicit Hierarchy(std::shared_ptr<store::ObjectStore> store);

  int format() const { return format_; }
  bool root_is_array() const { return root_is_array_; }
  bool is_consolidated() const { return !consolidated_.empty(); }
  const std::shared_ptr<store::ObjectStore>& store() const { return store_; }

  /// Attributes of a group or array; an empty object when there are none. kCorrupt when they are no
  /// JSON object.
  nlohmann::json attributes(std::string_view path) const;
  bool has_array(std::string_view path) const;
  /// nullptr when there is no array at `path`; kCorrupt or kUnsupported when it cannot be read.
  std::shared_ptr<Array> open_array(std::string_view path) const;
  std::optional<ArrayMetadata> array_metadata(std::string_view path) const;
  /// Paths of all arrays, sorted; found in the consolidated metadata or by walking the groups.
  std::vector<std::string> list_arrays() const;

 private:
  std::optional<nlohmann::json> document(std::string_view path, std::string_view name) const;
  void read_consolidated_v2();
  void read_consolidated_v3(const nlohmann::json& root);
  void walk(const std::string& group, int depth, std::vector<std::string>& out) const;

  std::shared_ptr<store::ObjectStore> store_;
  int format_ = 0;
  bool root_is_array_ = false;
  std::map<std::string, nlohmann::json, std::less<>>
      consolidated_;  ///< by key, e.g. "amplitude/.zarray"
};

}  // namespace craton::volume::zarr
