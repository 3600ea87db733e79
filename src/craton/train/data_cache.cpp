#include "craton/train/data_cache.h"

#include <cstdlib>

#include "craton/base/error.h"
#include "craton/base/log.h"

namespace craton::train {

store::CachePolicy open_data_cache(const recipe::CacheRecipe& recipe, std::string& trouble) {
  store::CachePolicy policy;
  if (recipe.bytes == 0) return policy;
  store::NodeCacheOptions options;
  options.folder = recipe.path.empty() ? store::default_cache_folder(store::process_environment())
                                       : std::filesystem::path(recipe.path);
  if (const char* started = std::getenv("CRATON_JOB_STARTED_MS"))
    options.trusted_since = std::chrono::system_clock::time_point(
        std::chrono::milliseconds(std::strtoll(started, nullptr, 10)));
  try {
    options.bytes = store::affordable_cache_bytes(options.folder, recipe.bytes);
    policy.cache = store::NodeCache::open(options);
  } catch (const Error& e) {
    trouble = e.what();
    log_warning("data are read without a cache: {}", trouble);
  }
  policy.form = recipe.format == "decoded" ? store::CacheForm::kDecoded
                : recipe.format == "lz4"   ? store::CacheForm::kLz4
                                           : store::CacheForm::kStored;
  return policy;
}

bool is_cached(const recipe::CacheRecipe& recipe, const std::string& uri) {
  const bool is_file = uri.find("://") == uri.npos || uri.starts_with("file://");
  return recipe.bytes > 0 && (!is_file || !recipe.path.empty());
}

}  // namespace craton::train
