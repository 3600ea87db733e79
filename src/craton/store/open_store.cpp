#include <map>
#include <mutex>
#include <string>

#include "craton/base/error.h"
#include "craton/store/file_store.h"
#include "craton/store/http/http_store.h"
#include "craton/store/memory_store.h"
#include "craton/store/object_store.h"
#include "craton/store/s3/s3_store.h"

namespace craton::store {

namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, StoreFactory, std::less<>> factories;
};

/// Built-in schemes are named here, since a static library drops objects that only register
/// themselves.
Registry& registry() {
  static auto* instance = [] {
    auto* made = new Registry();
    made->factories["file"] = [](std::string_view uri) -> std::shared_ptr<ObjectStore> {
      return std::make_shared<FileStore>(std::string(uri.substr(7)));
    };
    made->factories["memory"] = [](std::string_view uri) { return MemoryStore::open(uri); };
    made->factories["s3"] = [](std::string_view uri) { return s3::S3Store::open(uri); };
    made->factories["http"] =
        made->factories["https"] = [](std::string_view uri) -> std::shared_ptr<ObjectStore> {
      return std::make_shared<http::HttpStore>(http::parse_url(uri),
                                               http::limits_from(process_environment()));
    };
    return made;
  }();
  return *instance;
}

}  // namespace

void register_store_scheme(std::string_view scheme, StoreFactory factory) {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  r.factories[std::string(scheme)] = std::move(factory);
}

std::shared_ptr<ObjectStore> open_store(std::string_view uri) {
  if (uri.empty()) fail(ErrorCode::kInvalidArgument, "an empty location names no store");
  const size_t colon = uri.find("://");
  if (colon == uri.npos) return std::make_shared<FileStore>(std::string(uri));
  if (uri.starts_with("file://") && (uri.size() == 7 || uri[7] != '/'))
    fail(ErrorCode::kInvalidArgument, "\"{}\": expected file:///absolute/path or a plain path",
         uri);
  StoreFactory factory;
  std::string known;
  {
    Registry& r = registry();
    std::lock_guard lock(r.mutex);
    const auto it = r.factories.find(uri.substr(0, colon));
    if (it != r.factories.end()) factory = it->second;
    for (const auto& entry : r.factories)
      known += (known.empty() ? "" : ", ") + entry.first + "://";
  }
  if (!factory)
    fail(ErrorCode::kUnsupported,
         "\"{}\": this build has no store for {}://; it has {} and plain paths",
         uri.substr(0, uri.find('?')), uri.substr(0, colon), known);
  return factory(uri);
}

std::string join_uri(std::string_view uri, std::string_view key) {
  // The options of an s3:// location stay behind its key.
  const size_t question = uri.starts_with("s3://") ? uri.find('?') : uri.npos;
  if (question != uri.npos)
    return join_uri(uri.substr(0, question), key) + std::string(uri.substr(question));
  std::string out(uri);
  while (!out.empty() && out.back() == '/' && !out.ends_with("://")) out.pop_back();
  while (!key.empty() && key.front() == '/') key.remove_prefix(1);
  if (key.empty()) return out;
  if (!out.ends_with('/')) out += '/';
  return out + std::string(key);
}

}  // namespace craton::store
