#include <signal.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "craton/base/error.h"
#include "craton/base/log.h"
#include "craton/volume/mdio/writer.h"

namespace craton::volume::mdio {

using nlohmann::json;

namespace {

/// Names folders of runs that were killed: they take space, and only the user knows that no other
/// host writes there.
void warn_of_leftovers(const std::filesystem::path& path) {
  const std::filesystem::path absolute = std::filesystem::absolute(path).lexically_normal();
  const std::string mark = absolute.filename().string() + ".partial-";
  std::error_code error;
  std::filesystem::directory_iterator it(absolute.parent_path(), error);
  for (; !error && it != std::filesystem::directory_iterator(); it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!name.starts_with(mark)) continue;
    const int pid = std::atoi(name.c_str() + mark.size());
    if (pid > 0 && ::kill(pid, 0) != 0 && errno == ESRCH)
      log_warning("{} is left from a run that was cut off; it may be removed", it->path().string());
  }
}

}  // namespace

VolumeTarget::VolumeTarget(std::string_view uri, bool replace) : uri_(uri) {
  const bool is_file = uri.starts_with("file:///") || uri.find("://") == uri.npos;
  if (is_file) {
    const std::string path(uri.starts_with("file://") ? uri.substr(7) : uri);
    if (path.empty()) fail(ErrorCode::kInvalidArgument, "an empty path names no volume");
    warn_of_leftovers(path);
    staged_ = std::make_unique<runtime::StagedDirectory>(path, replace);
    files_ = std::make_shared<store::FileStore>(staged_->staging(), store::Durability::kOnSync);
    store_ = files_;
    return;
  }
  store_ = store::open_store(uri);
  if (store_->list_children("").empty()) return;
  if (!replace) fail(ErrorCode::kAlreadyExists, "{} already exists", uri);
  // Without its root document the old volume is none any more; the rest may go in any order.
  store_->remove("zarr.json");
  store_->remove(".zmetadata");
  for (const auto& object : store_->list("")) store_->remove(object.key);
}

VolumeTarget::~VolumeTarget() {
  if (committed_ || staged_) return;  // the staged folder removes itself
  try {
    for (const auto& object : store_->list("")) store_->remove(object.key);
  } catch (const std::exception& e) {
    log_warning("{}: an unfinished volume could not be removed: {}", uri_, e.what());
  }
}

void VolumeTarget::put_document(const std::string& key, const json& document) {
  const std::string text = document.dump(2);
  store_->put(key, std::as_bytes(std::span(text)));
}

void VolumeTarget::commit(const std::vector<std::pair<std::string, json>>& documents) {
  for (const auto& [key, document] : documents) put_document(key, document);
  if (files_) files_->sync();
  if (staged_) staged_->commit();
  committed_ = true;
}

}  // namespace craton::volume::mdio
