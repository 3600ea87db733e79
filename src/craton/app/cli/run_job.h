#pragma once

#include "craton/recipe/recipe.h"

namespace craton::app {

/// Runs a job on this machine to its end and prints its result; for `train` and `resume`. The first
/// Ctrl-C or SIGTERM asks it to finish its step, save and end, the second to end at once.
/// `take_over`: with the log and the live workers of an operator that is gone, if there are any;
/// otherwise from the newest checkpoint, as the recipe says.
void run_job(const recipe::Recipe& recipe, bool take_over);

}  // namespace craton::app
