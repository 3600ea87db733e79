#pragma once

#include <algorithm>
#include <vector>

#include "craton/runtime/thread_pool.h"
#include "craton/tensor/threads.h"

namespace craton::train {

/// Calls compute(i) for i in [0, count), several at once on `threads` threads with single-threaded
/// kernels, and then take(i, result) in order on the calling thread. Results of a few windows per
/// thread are in memory.
template <typename Result, typename Compute, typename Take>
void for_each_window(size_t count, size_t threads, Compute compute, Take take) {
  const size_t group = 4 * threads;
  for (size_t first = 0; first < count; first += group) {
    const size_t size = std::min(group, count - first);
    std::vector<Result> results(size);
    runtime::parallel_for(size, threads, [&](size_t k) {
      thread_local const bool ready = (tensor::set_threads(1), true);
      static_cast<void>(ready);
      results[k] = compute(first + k);
    });
    for (size_t k = 0; k < size; ++k) take(first + k, results[k]);
  }
}

}  // namespace craton::train
