#include "craton/cluster/recovery_decision.h"

#include <algorithm>
#include <map>
#include <set>

#include "craton/base/check.h"

namespace craton::cluster {
namespace {

using CopiesByShard = std::vector<std::vector<CopyState>>;

Step before(Step step) { return Step(step.value() - 1); }

CopiesByShard complete_copies(int shards, std::span<const Report> reports) {
  CopiesByShard copies(shards);
  for (const Report& report : reports) {
    for (const CopyState& copy : report.copies) {
      const int32_t s = copy.shard.value();
      if (copy.complete && s >= 0 && s < shards) copies[s].push_back(copy);
    }
  }
  return copies;
}

template <typename Usable>
std::vector<ShardId> shards_without(const CopiesByShard& copies, Usable usable) {
  std::vector<ShardId> missing;
  for (size_t s = 0; s < copies.size(); ++s) {
    if (std::none_of(copies[s].begin(), copies[s].end(), usable))
      missing.push_back(ShardId(static_cast<int32_t>(s)));
  }
  return missing;
}

std::optional<CommitResult> find_commit(std::span<const Report> reports, Step step) {
  for (const Report& report : reports) {
    if (report.last_commit && report.last_commit->slot.step == step) return report.last_commit;
  }
  return std::nullopt;
}

std::set<Generation> attempts(const CopiesByShard& copies, Step step) {
  std::set<Generation> found;
  for (const auto& of_shard : copies) {
    for (const CopyState& copy : of_shard) {
      if (copy.version == before(step) && copy.slot && copy.slot->step == step)
        found.insert(copy.slot->generation);
    }
  }
  return found;
}

}  // namespace

Verdict judge(int shards, std::span<const Report> reports) {
  using Kind = Verdict::Kind;
  const CopiesByShard copies = complete_copies(shards, reports);
  Verdict verdict;
  for (const auto& of_shard : copies) {
    for (const CopyState& copy : of_shard)
      verdict.highest = std::max(verdict.highest, copy.version);
  }
  const Step applied = verdict.highest, next = applied.next();
  const auto lose = [&](std::vector<ShardId> lost) {
    verdict.kind = Kind::kLoss;
    verdict.lost = std::move(lost);
    return verdict;
  };
  if (auto lost = shards_without(copies, [](const CopyState&) { return true; }); !lost.empty())
    return lose(std::move(lost));

  const auto with_slot = [](SlotTag slot) {
    return [slot](const CopyState& copy) {
      return copy.version == before(slot.step) && copy.slot == slot;
    };
  };
  const auto roll_forward = [&](SlotTag slot) {
    verdict.kind = Kind::kRollForward;
    verdict.step = slot.step;
    verdict.slot_generation = slot.generation;
    verdict.commit = find_commit(reports, slot.step);
    return verdict;
  };
  const std::set<Generation> at_next = attempts(copies, next);
  for (auto it = at_next.rbegin(); it != at_next.rend(); ++it) {
    if (shards_without(copies, with_slot({next, *it})).empty()) return roll_forward({next, *it});
  }

  std::set<Generation> at_applied = attempts(copies, applied);
  if (const auto commit = find_commit(reports, applied)) {
    std::erase_if(at_applied, [&](Generation g) { return g != commit->slot.generation; });
  }
  if (!at_applied.empty()) {
    const SlotTag slot{applied, *at_applied.rbegin()};
    auto lost = shards_without(
        copies, [&](const CopyState& c) { return c.version == applied || with_slot(slot)(c); });
    return lost.empty() ? roll_forward(slot) : lose(std::move(lost));
  }
  auto lost =
      shards_without(copies, [&](const CopyState& copy) { return copy.version == applied; });
  if (!lost.empty()) return lose(std::move(lost));
  verdict.step = next;
  return verdict;
}

bool is_ready(const Decision& decision, const CopyState& copy) {
  if (!copy.complete) return false;
  switch (decision.kind) {
    case DecisionKind::kRestore:
      return false;
    case DecisionKind::kRecompute:
      return copy.version == before(decision.step);
    case DecisionKind::kRollForward:
      return copy.version == decision.step || keeps_slot(decision, copy);
  }
  return false;
}

bool keeps_copy(const Decision& decision, const CopyState& copy) {
  return is_ready(decision, copy) ||
         (copy.complete && decision.kind == DecisionKind::kRollForward &&
          copy.version == before(decision.step));
}

bool keeps_slot(const Decision& decision, const CopyState& copy) {
  return decision.kind == DecisionKind::kRollForward && copy.version == before(decision.step) &&
         copy.slot == SlotTag{decision.step, decision.slot_generation};
}

bool may_acknowledge(const CopyState& copy, SlotTag slot) {
  return copy.complete && copy.version == before(slot.step);
}

std::vector<Rank> acknowledging(const Decision& decision, ShardId shard, bool first_commit) {
  const auto& holders = decision.placement.holders[shard.value()];
  std::vector<Rank> ranks(holders.begin() + 1, holders.end());
  if (!first_commit) return ranks;
  for (const ExtraHolder& extra : decision.extras) {
    if (extra.shard == shard) ranks.push_back(extra.rank);
  }
  return ranks;
}

bool holds_after_commit(const Decision& decision, ShardId shard, Rank rank) {
  const auto& holders = decision.placement.holders[shard.value()];
  return std::find(holders.begin(), holders.end(), rank) != holders.end();
}

namespace {

PlacementInput placement_input(const JobShape& shape, const Membership& membership,
                               std::span<const Report> reports, std::span<const WorkerId> primaries,
                               const Decision& decision) {
  PlacementInput input{.backups = shape.backups,
                       .replicate_all = shape.replicate_all,
                       .shard_group = shape.shard_group};
  std::vector<std::string> nodes;
  for (const Member& member : membership.members) nodes.push_back(member.worker.node);
  const std::vector<int32_t> domains = failure_domains(nodes);
  for (size_t r = 0; r < domains.size(); ++r) {
    input.members.push_back({domains[r], membership.members[r].role != Role::kTraining});
  }
  input.holders.resize(shape.shards);
  for (size_t r = 0; r < reports.size(); ++r) {
    for (const CopyState& copy : reports[r].copies) {
      const int32_t s = copy.shard.value();
      if (s < 0 || s >= shape.shards || !is_ready(decision, copy)) continue;
      auto& ranks = input.holders[s];
      const bool led = !primaries.empty() && primaries[s] == reports[r].worker;
      ranks.insert(led ? ranks.begin() : ranks.end(), Rank(static_cast<int32_t>(r)));
    }
  }
  return input;
}

/// By shard: who has applied the step of a roll-forward already.
std::vector<std::vector<Rank>> find_applied(const Decision& decision, size_t shards,
                                            std::span<const Report> reports) {
  std::vector<std::vector<Rank>> applied(shards);
  if (decision.kind != DecisionKind::kRollForward) return applied;
  for (size_t r = 0; r < reports.size(); ++r) {
    for (const CopyState& copy : reports[r].copies) {
      const auto s = static_cast<size_t>(copy.shard.value());
      if (s < shards && copy.complete && copy.version == decision.step)
        applied[s].push_back(Rank(static_cast<int32_t>(r)));
    }
  }
  return applied;
}

/// Each donor gives a part of the copy, so all of them stand at one version: of those who have
/// applied the step and those who have not, the larger group.
std::vector<Rank> choose_donors(const std::vector<Rank>& live, const std::vector<Rank>& applied) {
  std::vector<Rank> donors, others;
  for (Rank r : live) {
    const bool has_applied = std::find(applied.begin(), applied.end(), r) != applied.end();
    (has_applied ? donors : others).push_back(r);
  }
  return donors.size() >= others.size() ? donors : others;
}

void plan_transfers(const PlacementInput& input, std::span<const Report> reports,
                    Decision& decision) {
  const auto applied = find_applied(decision, input.holders.size(), reports);
  for (size_t s = 0; s < input.holders.size(); ++s) {
    const auto& live = input.holders[s];
    const auto& target = decision.placement.holders[s];
    const ShardId shard(static_cast<int32_t>(s));
    Transfer transfer{shard, {}, choose_donors(live, applied[s])};
    for (Rank r : target) {
      if (std::find(live.begin(), live.end(), r) == live.end()) transfer.receivers.push_back(r);
    }
    if (!transfer.receivers.empty()) decision.transfers.push_back(std::move(transfer));
    for (Rank r : live) {
      if (std::find(target.begin(), target.end(), r) == target.end())
        decision.extras.push_back({shard, r});
    }
  }
}

void share_micro_batches(const Membership& membership, std::span<const Report> reports,
                         Decision& decision) {
  std::vector<std::vector<MicroBatchRange>> held(membership.members.size());
  std::vector<bool> computes;
  for (size_t r = 0; r < membership.members.size(); ++r) {
    const bool training = membership.members[r].role == Role::kTraining;
    computes.push_back(training);
    const HeldSums& sums = reports[r].held;
    if (sums.step == decision.step && sums.micro_batches == decision.micro_batches)
      held[r] = sums.ranges;
    if (training && reports[r].parameters != before(decision.step))
      decision.needs_parameters.push_back(Rank(static_cast<int32_t>(r)));
  }
  decision.shares = reassign_micro_batches(decision.micro_batches, held, computes);
}

/// How many micro-batches the generation's steps have, and where they begin.
void set_sizes(const JobShape& shape, const Membership& membership, const DurableState& checkpoint,
               const StepSizes& sizes, Decision& decision) {
  const bool restores = decision.kind == DecisionKind::kRestore;
  decision.micro_batches = decision.later_micro_batches = scaled_micro_batches(
      shape.micro_batches, shape.reference, training_members(membership.members));
  if (shape.reference == 0) {
    const Step last = restores ? decision.step : before(decision.step);
    decision.position = last.value() * shape.micro_batches;
  } else if (restores) {
    decision.position = checkpoint.position;
  } else {
    const auto begun = sizes.at(decision.step);
    CRATON_CHECK(begun, "step {} is too old", decision.step.value());
    decision.position = begun->position;
    const bool may_have_begun = decision.kind == DecisionKind::kRollForward || !membership.planned;
    if (may_have_begun) decision.micro_batches = begun->micro_batches;
  }
}

}  // namespace

Decision complete_decision(const JobShape& shape, const Membership& membership,
                           std::span<const Report> reports, const Verdict& verdict,
                           std::span<const WorkerId> primaries, const DurableState& checkpoint,
                           const StepSizes& sizes) {
  CRATON_CHECK(reports.size() == membership.members.size());
  Decision decision{.generation = membership.generation, .step = verdict.step};
  switch (verdict.kind) {
    case Verdict::Kind::kRollForward:
      decision.kind = DecisionKind::kRollForward;
      decision.slot_generation = verdict.slot_generation;
      decision.commit = verdict.commit;
      break;
    case Verdict::Kind::kRecompute:
      break;
    case Verdict::Kind::kLoss:
      decision.kind = DecisionKind::kRestore;
      decision.step = checkpoint.step;
      decision.lost_steps = std::max<int64_t>(0, verdict.highest.value() - checkpoint.step.value());
      break;
  }
  set_sizes(shape, membership, checkpoint, sizes, decision);
  const PlacementInput input = placement_input(shape, membership, reports, primaries, decision);
  decision.placement = place_shards(input);
  if (decision.kind == DecisionKind::kRestore) return decision;
  plan_transfers(input, reports, decision);
  if (decision.kind == DecisionKind::kRecompute) share_micro_batches(membership, reports, decision);
  return decision;
}

void note_sizes(const Decision& decision, StepSizes& sizes) {
  const bool restores = decision.kind == DecisionKind::kRestore;
  const Step first = restores ? decision.step.next() : decision.step;
  sizes.set({first, decision.position, decision.micro_batches});
  sizes.set(
      {first.next(), decision.position + decision.micro_batches, decision.later_micro_batches});
}

std::optional<Rank> rank_of(const std::vector<Member>& members, WorkerId id) {
  for (size_t r = 0; r < members.size(); ++r) {
    if (members[r].worker.id == id) return Rank(static_cast<int32_t>(r));
  }
  return std::nullopt;
}

int training_members(const std::vector<Member>& members) {
  return static_cast<int>(std::count_if(members.begin(), members.end(),
                                        [](const Member& m) { return m.role == Role::kTraining; }));
}

}  // namespace craton::cluster
