#pragma once

#include <optional>
#include <vector>

#include "craton/base/strong.h"
#include "craton/cluster/messages.h"

namespace craton::parallel {

/// What a worker carries from step to step and from generation to generation, besides its shards
/// and gradient sums.
struct StepProgress {
  Step step;  ///< newest step that is committed and applied here
  int64_t updates =
      0;  ///< AdamW updates up to `step` (skipped steps do not count); part of the training state
  int64_t position = 0;  ///< micro-batches that the steps up to `step` have used
  std::optional<cluster::CommitResult> last_commit;  ///< R5: kept until the next commit
  Step parameters;  ///< version of `ShardedState::parameters` as a whole; -1 while they are mixed

  double last_loss = 0;  ///< of `step`, for whoever missed its commit

  /// Micro-batches whose sums this worker has given to its newest attempt at a step.
  std::vector<int32_t> contributed;

  /// Losses of the micro-batches of step `step` + 1, as far as they are known: own ones, and all of
  /// them before an acknowledgement.
  std::vector<std::optional<double>> losses;
};

/// Mean over the micro-batches, added up in a fixed tree over their numbers; NaN while one is
/// unknown.
double mean_loss(const std::vector<std::optional<double>>& losses);

}  // namespace craton::parallel
