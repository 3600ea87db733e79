#include <signal.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>

#include "craton/base/error.h"
#include "craton/base/fault_point.h"
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

/// A machine that goes down costs at most this much work.
constexpr int64_t kSyncSeconds = 60;

int64_t now_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

VolumeTarget::VolumeTarget(std::string_view uri, bool replace, const std::string& work)
    : uri_(uri) {
  const bool is_file = uri.starts_with("file:///") || uri.find("://") == uri.npos;
  if (is_file) {
    const std::string path(uri.starts_with("file://") ? uri.substr(7) : uri);
    if (path.empty()) fail(ErrorCode::kInvalidArgument, "an empty path names no volume");
    warn_of_leftovers(path);
    stage(path, replace, work);
    files_ = std::make_shared<store::FileStore>(staged_->staging(), store::Durability::kOnSync);
    if (journal_) files_->remove_unfinished();
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

/// With a journal the folder has a name of its own, so that a later process finds it: the journal
/// locks it, and says whether what lies in it is of the same work.
void VolumeTarget::stage(const std::string& path, bool replace, const std::string& work) {
  if (work.empty()) {
    staged_ = std::make_unique<runtime::StagedDirectory>(path, replace);
    return;
  }
  std::filesystem::path target = std::filesystem::absolute(path).lexically_normal();
  if (target.filename().empty()) target = target.parent_path();
  if (std::filesystem::exists(target) && !replace)
    fail(ErrorCode::kAlreadyExists, "{} already exists", path);
  const std::string staging = target.string() + ".partial", record = staging + ".journal";
  std::error_code error;
  std::filesystem::create_directories(target.parent_path(), error);
  if (error) fail_errno(fmt::format("cannot create {}", path), error.value());
  if (std::filesystem::exists(staging) && !std::filesystem::exists(record))
    fail(ErrorCode::kAlreadyExists,
         "{} is in the way: an unfinished volume would be kept there, and this is none; move it",
         staging);
  journal_ = std::make_unique<runtime::Journal>(record, work);
  if (journal_->was_same() && !std::filesystem::exists(staging)) journal_->restart();
  if (journal_->entries().empty()) std::filesystem::remove_all(staging, error);
  if (journal_->was_other())
    log_warning("{}: what a run over other files or with other options left is dropped", staging);
  staged_ = std::make_unique<runtime::StagedDirectory>(target, replace, staging);
  synced_seconds_ = now_seconds();
}

void VolumeTarget::sync_now_and_then() {
  int64_t last = synced_seconds_;
  const int64_t now = now_seconds();
  if (now - last < kSyncSeconds || !synced_seconds_.compare_exchange_strong(last, now)) return;
  const size_t entries = journal_->size();
  files_->sync();
  journal_->mark_synced(entries);
}

VolumeTarget::~VolumeTarget() {
  if (journal_ && !committed_) {
    if (journal_->size() > 0) {
      staged_->keep();
    } else {
      staged_.reset();
      try {
        journal_->remove();
      } catch (const std::exception& e) {
        log_warning("{}", e.what());
      }
    }
  }
  if (committed_ || staged_ || journal_) return;  // the staged folder removes itself
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

/// As `cp`, this does not wait for the disk, which would take as long as the compression. If the
/// machine goes down in the seconds after, chunks are empty files, which no reader takes for data:
/// names are written in the order in which they were made, the volume's own last.
void VolumeTarget::commit(const std::vector<std::pair<std::string, json>>& documents) {
  for (const auto& [key, document] : documents) put_document(key, document);
  CRATON_FAULT_POINT("volume.commit");
  if (staged_) staged_->commit();
  committed_ = true;
  CRATON_FAULT_POINT("volume.visible");
  if (journal_) journal_->remove();
}

}  // namespace craton::volume::mdio
