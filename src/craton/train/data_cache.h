#pragma once

#include <string>

#include "craton/recipe/recipe.h"
#include "craton/store/cache/cached_store.h"

namespace craton::train {

/// The node's cache as the recipe wants it; without a cache, and with `trouble` saying why, when
/// its folder cannot be used. What workers of this job have compared with the store since the job
/// began (CRATON_JOB_STARTED_MS, which the operator sets) need not be compared again.
store::CachePolicy open_data_cache(const recipe::CacheRecipe& recipe, std::string& trouble);

/// Whether a volume is read through it: all volumes where the recipe names a folder, else those
/// that are not files.
bool is_cached(const recipe::CacheRecipe& recipe, const std::string& uri);

}  // namespace craton::train
