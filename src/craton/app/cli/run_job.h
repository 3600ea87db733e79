#pragma once

#include <string>

#include "craton/recipe/recipe.h"

namespace craton::app {

struct RunOptions {
  /// With the log and the live workers of an operator that is gone, if there are any; otherwise
  /// from the newest checkpoint, as the recipe says.
  bool take_over = false;
  /// "[HOST:]PORT" for agents of other nodes; empty: workers run on this machine, or, when a job is
  /// taken over, where they did.
  std::string listen;
};

/// Runs a job to its end and prints its result; for `train` and `resume`. The first Ctrl-C or
/// SIGTERM asks it to finish its step, save and end, the second to end at once.
void run_job(const recipe::Recipe& recipe, const RunOptions& run);

}  // namespace craton::app
