#include "craton/train/data_cache.h"

#include <cstdlib>

#include "craton/base/error.h"
#include "craton/base/log.h"

namespace craton::train {

void DataCache::open() {
  opened_ = true;
  store::NodeCacheOptions options;
  options.folder = recipe_.path.empty() ? store::default_cache_folder(store::process_environment())
                                        : std::filesystem::path(recipe_.path);
  if (const char* started = std::getenv("CRATON_JOB_STARTED_MS"))
    options.trusted_since = std::chrono::system_clock::time_point(
        std::chrono::milliseconds(std::strtoll(started, nullptr, 10)));
  try {
    options.bytes = store::affordable_cache_bytes(options.folder, recipe_.bytes);
    policy_.cache = store::NodeCache::open(options);
    if (recipe_.mode == "persistent") {
      const char* token = std::getenv("CRATON_CACHE_TOKEN");
      policy_.peers = std::make_shared<store::CachePeers>(
          policy_.cache, store::CachePeersOptions{recipe_.peers, token != nullptr ? token : ""});
    }
  } catch (const Error& e) {
    trouble_ = e.what();
    log_warning("data are read without a cache: {}", trouble_);
  }
  policy_.form = recipe_.format == "decoded" ? store::CacheForm::kDecoded
                 : recipe_.format == "lz4"   ? store::CacheForm::kLz4
                                             : store::CacheForm::kStored;
}

store::CachePolicy DataCache::policy_for(const std::string& uri) {
  const bool is_file = uri.find("://") == uri.npos || uri.starts_with("file://");
  if (recipe_.bytes == 0 || (is_file && recipe_.path.empty())) return {};
  if (!opened_) open();
  return policy_;
}

std::string DataCache::describe() const {
  if (!opened_) return "";
  if (!policy_.cache) return "; without a cache: " + trouble_;
  std::string text = "; cache " + policy_.cache->folder().string();
  if (policy_.peers) text += fmt::format(" and {} peers", recipe_.peers.size());
  return text;
}

}  // namespace craton::train
