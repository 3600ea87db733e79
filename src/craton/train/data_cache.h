#pragma once

#include <string>

#include "craton/recipe/recipe.h"
#include "craton/store/cache/cached_store.h"

namespace craton::train {

/// The node's cache as the recipe wants it, opened when the first location asks for it. What
/// workers of this job have compared with the store since the job began (CRATON_JOB_STARTED_MS,
/// which the operator sets) need not be compared again. A folder that cannot be used costs a
/// warning.
class DataCache {
 public:
  explicit DataCache(const recipe::CacheRecipe& recipe) : recipe_(recipe) {}

  /// How `uri` is to be read: through the cache where the recipe names a folder, else only what is
  /// no file.
  store::CachePolicy policy_for(const std::string& uri);
  /// For people: "; cache FOLDER", why there is none, or "" when nothing asked for it.
  std::string describe() const;

 private:
  void open();
  const recipe::CacheRecipe recipe_;
  bool opened_ = false;
  store::CachePolicy policy_;
  std::string trouble_;
};

}  // namespace craton::train
