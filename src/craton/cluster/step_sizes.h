#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "craton/base/strong.h"

/// How many micro-batches a step has, and which ones, where the batch follows the number of workers
/// (`elastic.batch: scale`). Then neither is a function of the step: both are part of what the
/// operator decides, and remembers.
namespace craton::cluster {

/// Micro-batches of a step with `workers`, in a job that has `micro_batches` with `reference`
/// workers; at least one. `reference` 0: the same with any number of workers.
int scaled_micro_batches(int micro_batches, int reference, int workers);

/// From step `from` on, each step has `micro_batches`; all steps before it have used `position` of
/// them.
struct StepSize {
  Step from;
  int64_t position = 0;
  int micro_batches = 0;

  bool operator==(const StepSize&) const = default;
};

/// The sizes of the newest steps, and of those to come: a step that a loss interrupts is computed
/// again with the micro-batches that it was begun with, whoever is left.
struct StepSizes {
  std::vector<StepSize> entries;  ///< ascending; bounded by `kRemembered`

  /// A copy lags at most one step behind the newest; so this is more than anybody goes back to.
  static constexpr int64_t kRemembered = 16;

  /// Of this very step; empty for one that is forgotten.
  std::optional<StepSize> at(Step step) const;
  /// What is known of `size.from` and later steps is replaced; old steps are forgotten.
  void set(const StepSize& size);

  bool operator==(const StepSizes&) const = default;
};

}  // namespace craton::cluster
