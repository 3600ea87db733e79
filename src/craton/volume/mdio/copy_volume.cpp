#include "craton/volume/mdio/copy_volume.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "craton/base/error.h"
#include "craton/base/fault_point.h"
#include "craton/base/sha256.h"
#include "craton/runtime/thread_pool.h"
#include "craton/store/copy_object.h"
#include "craton/volume/mdio/writer.h"

namespace craton::volume {

namespace {

using store::ObjectInfo;
using store::ObjectStore;

/// In an object store, what an unfinished copy is a copy of; gone when it is complete.
constexpr std::string_view kMark = ".craton-copy";

bool is_root_document(const std::string& key) { return key.find('/') == key.npos; }

bool is_file(std::string_view uri) {
  return uri.starts_with("file://") || uri.find("://") == uri.npos;
}

/// All that the copy will hold, in one line.
std::string describe_work(const ObjectStore& from, const std::vector<ObjectInfo>& objects) {
  Sha256 hash;
  for (const ObjectInfo& object : objects) {
    const std::string line = fmt::format("{}\n{}\n{}\n", object.key, object.size, object.etag);
    hash.update(std::as_bytes(std::span(line)));
  }
  return fmt::format("copy 1 of {} {}", from.identity(), hash.hex_digest());
}

/// Where the copy grows, and what of it an earlier run has left.
class Target {
 public:
  virtual ~Target() = default;
  virtual ObjectStore& store() = 0;
  const std::set<std::string>& finished() const { return finished_; }
  /// Thread-safe.
  virtual void note_finished(const std::string& key) = 0;
  /// Copies the root documents by `copy` and shows the volume.
  virtual void commit(const std::function<void()>& copy_root) = 0;

 protected:
  std::set<std::string> finished_;
};

class FileTarget final : public Target {
 public:
  FileTarget(std::string_view to, bool replace, const std::string& work)
      : target_(to, replace, work) {
    for (const std::string& entry : target_.journal()->entries()) finished_.insert(entry);
  }
  ObjectStore& store() override { return target_.store(); }
  void note_finished(const std::string& key) override {
    if (key.find('\n') != key.npos)
      fail(ErrorCode::kUnsupported, "the key \"{}\" holds a line end", key);
    target_.journal()->append(key);
    target_.sync_now_and_then();
  }
  void commit(const std::function<void()>& copy_root) override {
    copy_root();
    target_.commit({});
  }

 private:
  mdio::VolumeTarget target_;
};

class ObjectTarget final : public Target {
 public:
  ObjectTarget(std::string_view to, bool replace, const std::string& work,
               const std::vector<ObjectInfo>& wanted)
      : store_(store::open_store(to)) {
    const auto mark = store_->get(kMark);
    const std::string found =
        mark ? std::string(reinterpret_cast<const char*>(mark->data()), mark->size()) : "";
    if (found == work) {
      std::map<std::string, uint64_t> sizes;
      for (const ObjectInfo& object : wanted) sizes[object.key] = object.size;
      for (const ObjectInfo& object : store_->list("")) {
        const auto it = sizes.find(object.key);
        if (it != sizes.end() && it->second == object.size && !is_root_document(object.key))
          finished_.insert(object.key);
      }
      return;
    }
    if (!mark && !replace && !store_->list_children("").empty())
      fail(ErrorCode::kAlreadyExists, "{} already exists", to);
    // Root documents first: without them what is left is no volume.
    const auto old = store_->list("");
    for (const bool root : {true, false})
      for (const ObjectInfo& object : old)
        if (is_root_document(object.key) == root) store_->remove(object.key);
    store_->put(kMark, std::as_bytes(std::span(work)));
  }
  ObjectStore& store() override { return *store_; }
  void note_finished(const std::string&) override {}
  void commit(const std::function<void()>& copy_root) override {
    copy_root();
    store_->remove(kMark);
  }

 private:
  std::shared_ptr<ObjectStore> store_;
};

}  // namespace

CopyResult copy_volume(std::string_view from_uri, std::string_view to_uri,
                       const CopyOptions& options) {
  const auto from = store::open_store(from_uri);
  std::vector<ObjectInfo> objects = from->list("");
  std::erase_if(objects, [](const ObjectInfo& object) { return object.key == kMark; });
  if (std::ranges::none_of(objects, [](const ObjectInfo& o) { return is_root_document(o.key); }))
    fail(ErrorCode::kNotFound, "there is no volume at {}: nothing with metadata at its root",
         from_uri);
  const std::string work = describe_work(*from, objects);
  std::unique_ptr<Target> target;
  if (is_file(to_uri)) {
    target = std::make_unique<FileTarget>(to_uri, options.replace, work);
  } else {
    target = std::make_unique<ObjectTarget>(to_uri, options.replace, work, objects);
  }
  CopyResult result;
  std::vector<const ObjectInfo*> nested, root;
  std::mutex mutex;
  uint64_t done = 0;
  for (const ObjectInfo& object : objects) {
    ++result.objects;
    result.bytes += object.size;
    if (target->finished().contains(object.key)) {
      ++result.objects_before;
      done += object.size;
    } else {
      (is_root_document(object.key) ? root : nested).push_back(&object);
    }
  }
  const auto advance = [&](uint64_t bytes) {
    if (options.cancel != nullptr && *options.cancel)
      fail(ErrorCode::kCancelled, "interrupted; the same command goes on from here");
    const std::lock_guard lock(mutex);
    done += bytes;
    if (options.progress) options.progress(done, result.bytes);
  };
  advance(0);
  runtime::parallel_for(nested.size(), options.parallel, [&](size_t i) {
    store::copy_object(*from, *nested[i], target->store(), nested[i]->key, advance);
    target->note_finished(nested[i]->key);
    CRATON_FAULT_POINT("copy.object");
  });
  CRATON_FAULT_POINT("copy.commit");
  target->commit([&] {
    for (const ObjectInfo* object : root)
      store::copy_object(*from, *object, target->store(), object->key, advance);
  });
  return result;
}

}  // namespace craton::volume
