#pragma once

#include "craton/recipe/recipe.h"

/// What windows ask of model and micro-batch; internal to recipe/.
namespace craton::recipe {

/// The model's own keys are its factory's; what the data decides is checked here, where the lines
/// are known.
void fit_model_to_window(Settings& model, const DataRecipe& data);

/// Tiles are whole patches of one window. `settings` are the whole recipe's.
void check_tiles(const Settings& settings, const Recipe& recipe);

/// Windows of several shapes do not stack into one tensor.
void fit_micro_batch_to_windows(const Settings& settings, const Recipe& recipe);

}  // namespace craton::recipe
