#pragma once

#include <cstdint>
#include <vector>

#include "craton/comm/communicator.h"
#include "craton/parallel/assignment.h"
#include "craton/parallel/sharded_state.h"

namespace craton::parallel {

/// A parameter put together from its chunks, with its moments.
struct WholeTensor {
  size_t slot = 0;  ///< index into layout().slots()
  std::vector<float> parameter, exp_avg, exp_avg_sq;
};

/// Which worker gets which parameter whole: the next largest one goes to the worker that has least.
/// By slot.
std::vector<Rank> distribute_tensors(const FlatLayout& layout, int world_size);

/// From chunks to whole parameters: each worker gets those that `distribute_tensors` gives it, for
/// a checkpoint that any number of workers (and other programs) can read. A collective of all
/// workers between two steps; returns when nobody reads this worker's state any more. Memory: 12
/// bytes * numel / W. Bytes sent per worker: about 12 * numel / W * (W-1)/W.
std::vector<WholeTensor> gather_whole_tensors(ShardedState& state, comm::Communicator& communicator,
                                              const Assignment& assignment, Step step);

}  // namespace craton::parallel
