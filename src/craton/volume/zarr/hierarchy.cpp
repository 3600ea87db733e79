#include "craton/volume/zarr/hierarchy.h"

#include <algorithm>

#include "craton/base/error.h"
#include "craton/base/log.h"

namespace craton::volume::zarr {

using nlohmann::json;

namespace {

constexpr int kMaxDepth = 16;

std::string join(std::string_view path, std::string_view name) {
  return path.empty() ? std::string(name) : fmt::format("{}/{}", path, name);
}

bool is_array_document(const json& document) {
  return document.is_object() && document.contains("node_type") && document["node_type"] == "array";
}

}  // namespace

Hierarchy::Hierarchy(std::shared_ptr<store::ObjectStore> store) : store_(std::move(store)) {
  if (const auto root = document("", "zarr.json")) {
    format_ = 3;
    root_is_array_ = is_array_document(*root);
    read_consolidated_v3(*root);
    return;
  }
  read_consolidated_v2();
  root_is_array_ = document("", ".zarray").has_value();
  if (root_is_array_ || document("", ".zgroup") || !consolidated_.empty() ||
      document("", ".zattrs"))
    format_ = 2;
}

std::optional<json> Hierarchy::document(std::string_view path, std::string_view name) const {
  const std::string key = join(path, name);
  const auto it = consolidated_.find(key);
  if (it != consolidated_.end()) return it->second;
  const auto bytes = store_->get(key);
  if (!bytes) return std::nullopt;
  return parse_json(*bytes, key);
}

void Hierarchy::read_consolidated_v2() {
  const auto bytes = store_->get(".zmetadata");
  if (!bytes) return;
  json document;
  try {
    document = parse_json(*bytes, ".zmetadata");
  } catch (const Error&) {
    // Below it is no object.
  }
  if (!document.is_object() || !document.contains("metadata") ||
      !document["metadata"].is_object()) {
    log_warning("{}: .zmetadata is damaged; the arrays' own metadata are used", store_->uri());
    return;
  }
  for (const auto& [key, value] : document["metadata"].items()) consolidated_[key] = value;
}

void Hierarchy::read_consolidated_v3(const json& root) {
  if (!root.is_object() || !root.contains("consolidated_metadata")) return;
  const json& part = root["consolidated_metadata"];
  if (!part.is_object() || !part.contains("metadata") || !part["metadata"].is_object()) return;
  for (const auto& [path, value] : part["metadata"].items())
    consolidated_[join(path, "zarr.json")] = value;
}

json Hierarchy::attributes(std::string_view path) const {
  json out = json::object();
  if (format_ == 3) {
    const auto node = document(path, "zarr.json");
    if (node && node->is_object() && node->contains("attributes")) out = (*node)["attributes"];
  } else if (const auto node = document(path, ".zattrs")) {
    out = *node;
  }
  if (out.is_null()) return json::object();
  if (!out.is_object())
    throw Error(ErrorCode::kCorrupt, "attributes that are no JSON object").with("key", path);
  return out;
}

bool Hierarchy::has_array(std::string_view path) const {
  if (format_ == 2) return document(path, ".zarray").has_value();
  const auto node = document(path, "zarr.json");
  return node && is_array_document(*node);
}

std::optional<ArrayMetadata> Hierarchy::array_metadata(std::string_view path) const {
  if (format_ == 2) {
    const auto node = document(path, ".zarray");
    if (!node) return std::nullopt;
    return parse_array_v2(*node, attributes(path), join(path, ".zarray"));
  }
  const auto node = document(path, "zarr.json");
  if (!node || !is_array_document(*node)) return std::nullopt;
  return parse_array_v3(*node, join(path, "zarr.json"));
}

std::shared_ptr<Array> Hierarchy::open_array(std::string_view path) const {
  auto metadata = array_metadata(path);
  if (!metadata) return nullptr;
  return std::make_shared<Array>(store_, std::string(path), std::move(*metadata));
}

std::vector<std::string> Hierarchy::list_arrays() const {
  std::vector<std::string> out;
  const std::string_view suffix = format_ == 2 ? ".zarray" : "zarr.json";
  for (const auto& [key, value] : consolidated_) {
    if (format_ == 3 && !is_array_document(value)) continue;
    if (key.ends_with("/" + std::string(suffix)))
      out.push_back(key.substr(0, key.size() - suffix.size() - 1));
  }
  if (consolidated_.empty() && root_is_array_) out.push_back("");
  if (consolidated_.empty() && !root_is_array_) walk("", 0, out);
  std::ranges::sort(out);
  return out;
}

void Hierarchy::walk(const std::string& group, int depth, std::vector<std::string>& out) const {
  if (depth >= kMaxDepth) return;
  for (const std::string& child : store_->list_children(group)) {
    if (!child.ends_with('/')) continue;
    const std::string path = join(group, std::string_view(child).substr(0, child.size() - 1));
    try {
      if (has_array(path)) {
        out.push_back(path);
        continue;
      }
    } catch (const Error& e) {
      if (e.code() != ErrorCode::kCorrupt) throw;
      log_warning("{}: {} is left out: {}", store_->uri(), path, e.what());
      continue;
    }
    walk(path, depth + 1, out);
  }
}

}  // namespace craton::volume::zarr
