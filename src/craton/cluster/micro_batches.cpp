#include "craton/cluster/micro_batches.h"

#include <algorithm>
#include <cstdint>

#include "craton/base/check.h"

namespace craton::cluster {
namespace {

void append(std::vector<MicroBatchRange>& ranges, int micro_batch) {
  if (!ranges.empty() && ranges.back().end == micro_batch) {
    ++ranges.back().end;
  } else {
    ranges.push_back({micro_batch, micro_batch + 1});
  }
}

}  // namespace

std::vector<MicroBatchRange> micro_batch_ranges(int micro_batches, int workers) {
  CRATON_CHECK(micro_batches > 0 && workers > 0);
  std::vector<MicroBatchRange> ranges;
  if (workers > micro_batches) {
    for (int r = 0; r < workers; ++r)
      ranges.push_back({std::min(r, micro_batches), std::min(r + 1, micro_batches)});
    return ranges;
  }
  for (int64_t r = 0; r < workers; ++r) {
    ranges.push_back({static_cast<int>(r * micro_batches / workers),
                      static_cast<int>((r + 1) * micro_batches / workers)});
  }
  return ranges;
}

std::vector<MicroBatchShare> reassign_micro_batches(
    int micro_batches, const std::vector<std::vector<MicroBatchRange>>& held,
    const std::vector<bool>& computes) {
  CRATON_CHECK(held.size() == computes.size());
  std::vector<int> owner(micro_batches, -1);
  for (size_t r = 0; r < held.size(); ++r) {
    for (const MicroBatchRange& range : held[r]) {
      for (int m = std::max(0, range.begin); m < std::min(range.end, micro_batches); ++m) {
        if (owner[m] < 0) owner[m] = static_cast<int>(r);
      }
    }
  }
  std::vector<int> lost, computing;
  std::vector<MicroBatchShare> shares(held.size());
  for (int m = 0; m < micro_batches; ++m) {
    if (owner[m] < 0) {
      lost.push_back(m);
    } else {
      append(shares[owner[m]].keep, m);
    }
  }
  for (size_t r = 0; r < computes.size(); ++r) {
    if (computes[r]) computing.push_back(static_cast<int>(r));
  }
  CRATON_CHECK(!computing.empty());
  if (lost.empty()) return shares;
  const auto parts =
      micro_batch_ranges(static_cast<int>(lost.size()), static_cast<int>(computing.size()));
  for (size_t i = 0; i < parts.size(); ++i) {
    for (int k = parts[i].begin; k < parts[i].end; ++k)
      append(shares[computing[i]].compute, lost[k]);
  }
  return shares;
}

}  // namespace craton::cluster
