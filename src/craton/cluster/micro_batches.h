#pragma once

#include <vector>

#include "craton/base/strong.h"

namespace craton::cluster {

/// Micro-batches begin..end-1 of a step.
struct MicroBatchRange {
  int begin = 0, end = 0;

  int size() const { return end - begin; }
  bool operator==(const MicroBatchRange&) const = default;
};

/// The regular assignment: worker r of W computes one contiguous range; sizes differ by at most
/// one. Contiguous, so that a worker pre-adds large subtrees. Any 1 <= W <= M; with W > M the last
/// workers get empty ranges.
std::vector<MicroBatchRange> micro_batch_ranges(int micro_batches, int workers);

/// Who contributes what to a step that is computed again.
struct MicroBatchShare {
  std::vector<MicroBatchRange> keep;     ///< its sums of these survive and count
  std::vector<MicroBatchRange> compute;  ///< it computes these

  bool operator==(const MicroBatchShare&) const = default;
};

/// Survivors keep the sums that they hold; the micro-batches that nobody holds are spread over the
/// workers that may compute, so that their numbers of new micro-batches differ by at most one.
/// `held[r]`: what worker r reported; ranges outside of 0..M-1 are ignored and what two workers
/// hold counts for the lower rank. At least one entry of `computes` is true.
std::vector<MicroBatchShare> reassign_micro_batches(
    int micro_batches, const std::vector<std::vector<MicroBatchRange>>& held,
    const std::vector<bool>& computes);

}  // namespace craton::cluster
