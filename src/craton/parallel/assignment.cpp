#include "craton/parallel/assignment.h"

#include <algorithm>

#include "craton/base/check.h"
#include "craton/base/error.h"
#include "craton/cluster/micro_batches.h"
#include "craton/cluster/recovery_decision.h"

namespace craton::parallel {
namespace {

std::vector<int32_t> flatten(const std::vector<cluster::MicroBatchRange>& ranges) {
  std::vector<int32_t> out;
  for (const auto& range : ranges) {
    for (int32_t m = range.begin; m < range.end; ++m) out.push_back(m);
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

std::string to_string(Strategy strategy) {
  switch (strategy) {
    case Strategy::kDdp:
      return "ddp";
    case Strategy::kZero1:
      return "zero1";
    case Strategy::kZero2:
      return "zero2";
    case Strategy::kZero3:
      return "zero3";
    case Strategy::kFsdp:
      return "fsdp";
  }
  return "?";
}

Strategy parse_strategy(const std::string& name) {
  for (Strategy strategy : kStrategies) {
    if (to_string(strategy) == name) return strategy;
  }
  fail(ErrorCode::kInvalidArgument,
       "unknown strategy '{}'; expected ddp, zero1, zero2, zero3 or fsdp", name);
}

bool Assignment::holds(Rank rank, ShardId shard) const {
  const auto& list = holders[static_cast<size_t>(shard.value())];
  return std::find(list.begin(), list.end(), rank) != list.end();
}

int Assignment::rounds() const {
  if (keeps_sums(strategy)) return 1;
  size_t most = 0;
  for (const auto& list : computes) most = std::max(most, list.size());
  return static_cast<int>(most);
}

std::vector<TreeNode> Assignment::contributions(Rank rank, int round) const {
  const auto r = static_cast<size_t>(rank.value());
  if (!keeps_sums(strategy)) {
    if (round >= static_cast<int>(computes[r].size())) return {};
    return {TreeNode{0, computes[r][static_cast<size_t>(round)]}};
  }
  std::vector<int32_t> all = keeps[r];
  all.insert(all.end(), computes[r].begin(), computes[r].end());
  std::sort(all.begin(), all.end());
  return maximal_nodes(all, micro_batches);
}

Assignment make_assignment(Strategy strategy, int32_t micro_batches,
                           const cluster::Decision& decision, int world_size, int training,
                           bool first) {
  CRATON_CHECK(training >= 1 && training <= world_size && micro_batches >= 1,
               "{} of {} workers for {} micro-batches", training, world_size, micro_batches);
  if (!first) world_size = training;
  Assignment out;
  out.strategy = strategy;
  out.micro_batches = micro_batches;
  out.keeps.resize(static_cast<size_t>(world_size));
  out.computes.resize(static_cast<size_t>(world_size));
  if (!keeps_sums(strategy)) {
    for (int32_t m = 0; m < micro_batches; ++m)
      out.computes[static_cast<size_t>(m % training)].push_back(m);
  } else if (first && decision.kind == cluster::DecisionKind::kRecompute) {
    for (size_t r = 0; r < decision.shares.size(); ++r) {
      out.keeps[r] = flatten(decision.shares[r].keep);
      out.computes[r] = flatten(decision.shares[r].compute);
    }
  } else {
    const auto ranges = cluster::micro_batch_ranges(micro_batches, training);
    for (size_t r = 0; r < ranges.size(); ++r) out.computes[r] = flatten({ranges[r]});
  }
  out.holders = decision.placement.holders;
  if (first) {
    for (const auto& extra : decision.extras) {
      auto& list = out.holders[static_cast<size_t>(extra.shard.value())];
      if (std::find(list.begin(), list.end(), extra.rank) == list.end()) list.push_back(extra.rank);
    }
  }
  return out;
}

cluster::Decision first_decision(Strategy strategy, int workers, int32_t micro_batches, int shards,
                                 int backups, int shard_group) {
  cluster::PlacementInput input;
  input.backups = backups;
  input.shard_group = shard_group;
  input.replicate_all = strategy == Strategy::kDdp;
  for (int r = 0; r < workers; ++r) input.members.push_back({r, false});
  input.holders.resize(static_cast<size_t>(shards));
  cluster::Decision decision;
  decision.generation = Generation(1);
  decision.kind = cluster::DecisionKind::kRestore;
  decision.step = Step(0);
  decision.micro_batches = decision.later_micro_batches = micro_batches;
  decision.placement = cluster::place_shards(input);
  return decision;
}

}  // namespace craton::parallel
