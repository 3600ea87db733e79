#pragma once

#include <string>
#include <vector>

#include "craton/recipe/recipe.h"

namespace craton::app {

/// SEG-Y files among the recipe's volumes become MDIO volumes in ./volumes first (kept for the next
/// run; made again when the file is newer). Returns the "data.volumes.N.uri=..." overrides that put
/// them in their place; prints a line for each file that it converts.
std::vector<std::string> prepare_volumes(const recipe::Recipe& recipe);

}  // namespace craton::app
