#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "craton/base/strong.h"
#include "craton/cluster/messages.h"
#include "craton/parallel/reduction_tree.h"

namespace craton::parallel {

/// How training state is spread. A strategy is three answers: who holds a shard, whether a worker
/// adds up the gradients of its own micro-batches before it sends them, and whether it keeps
/// parameters that it does not hold. Everything else is the same code, so all end with the same
/// bits.
enum class Strategy {
  kDdp,    ///< every worker holds every shard
  kZero1,  ///< a shard has one primary (and its backups); workers add up, and keep their sums until
           ///< the commit
  kZero2,  ///< as zero1, but each micro-batch's gradient goes to its holder at once and its memory
           ///< is freed
  kZero3,  ///< as zero2, and parameters that a worker does not hold are read from their holders
           ///< when a block of the model computes with them
  kFsdp,   ///< the same; they may be told to stay from forward to backward
};

std::string to_string(Strategy strategy);
/// Error that lists the names.
Strategy parse_strategy(const std::string& name);

/// Workers add up their own micro-batches, and keep the sums for a recomputation.
inline bool keeps_sums(Strategy strategy) {
  return strategy == Strategy::kDdp || strategy == Strategy::kZero1;
}
/// Workers keep only the parameters that they hold.
inline bool shards_parameters(Strategy strategy) {
  return strategy == Strategy::kZero3 || strategy == Strategy::kFsdp;
}
inline constexpr Strategy kStrategies[] = {Strategy::kDdp, Strategy::kZero1, Strategy::kZero2,
                                           Strategy::kZero3, Strategy::kFsdp};

/// Who does what in one step. Plain values, derived from the operator's decision; the same on all
/// members.
struct Assignment {
  Strategy strategy = Strategy::kDdp;
  int32_t micro_batches = 1;  ///< M of the step
  std::vector<std::vector<int32_t>>
      keeps;  ///< by rank: micro-batches of which the rank already has sums
  std::vector<std::vector<int32_t>>
      computes;  ///< by rank: those that it computes; with `keeps` together 0..M-1, each once
  std::vector<std::vector<Rank>>
      holders;  ///< by shard: the primary first, then all others that acknowledge

  int world_size() const { return static_cast<int>(computes.size()); }
  Rank primary(ShardId shard) const { return holders[static_cast<size_t>(shard.value())].front(); }
  bool holds(Rank rank, ShardId shard) const;

  /// Rounds in which gradients go to the holders: 1 when workers add up first, else one per
  /// micro-batch of the busiest worker.
  int rounds() const;
  /// Subtrees that `rank` sends in `round`, ascending; may be empty.
  std::vector<TreeNode> contributions(Rank rank, int round) const;
};

/// The assignment of a step of the decision's generation. `first`: of the first step, in which
/// survivors contribute the sums that they keep and members that leave still acknowledge; later
/// steps use contiguous ranges (workers add up), or deal micro-batches out in turn (others, so that
/// whole subtrees complete at the holder round by round). `training` members, the lowest ranks,
/// compute; there may be more of them than micro-batches.
Assignment make_assignment(Strategy strategy, int32_t micro_batches,
                           const cluster::Decision& decision, int world_size, int training,
                           bool first);

/// The decision with which an undisturbed job of `workers` begins: for tests and benchmarks without
/// an operator.
cluster::Decision first_decision(Strategy strategy, int workers, int32_t micro_batches, int shards,
                                 int backups = 0, int shard_group = 0);

}  // namespace craton::parallel
