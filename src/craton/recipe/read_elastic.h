#pragma once

#include "craton/recipe/recipe.h"

/// The sizes of a job, and what follows them; internal to recipe/.
namespace craton::recipe {

ElasticRecipe read_elastic(const Settings& s, const ParallelRecipe& parallel);

/// Each worker of each size that the job may have has a micro-batch in each step; `settings` are
/// the whole recipe's.
void check_shares(const Settings& settings, const Recipe& recipe);

}  // namespace craton::recipe
