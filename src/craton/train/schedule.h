#pragma once

#include "craton/base/strong.h"
#include "craton/recipe/recipe.h"

namespace craton::train {

/// Learning rate of the update that makes the state of `step` (1..steps): linear warm-up, then a
/// half cosine down to lr * min_lr_ratio at the last step, or constant. A function of the step
/// alone.
double learning_rate(const recipe::TrainRecipe& train, Step step);

/// Of a step of so many micro-batches: that, times what the recipe's rule makes of the batch.
double learning_rate(const recipe::Recipe& recipe, Step step, int64_t micro_batches);

}  // namespace craton::train
