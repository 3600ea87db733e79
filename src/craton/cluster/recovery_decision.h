#pragma once

#include <optional>
#include <span>
#include <vector>

#include "craton/cluster/messages.h"
#include "craton/cluster/step_sizes.h"

namespace craton::cluster {

/// What the copies that are left say about the step in flight.
struct Verdict {
  enum class Kind { kRollForward, kRecompute, kLoss };

  Kind kind = Kind::kRecompute;
  Step step;                           ///< of the roll-forward or the recomputation
  Generation slot_generation;          ///< roll forward: the attempt whose slots count
  std::optional<CommitResult> commit;  ///< roll forward: its result, if a survivor has it
  std::vector<ShardId> lost;           ///< loss: shards without a copy that fits the history
  Step highest;                        ///< newest step that any copy has applied

  bool operator==(const Verdict&) const = default;
};

/// The roll-forward rule. With V the highest version that a complete copy has applied:
///
/// 1. If every shard has a copy at V with a slot of one attempt at V+1, step V+1 may have been
/// committed: roll it forward.
/// 2. Otherwise nobody committed V+1 (a commit needs every holder's acknowledgement, and an
/// acknowledgement is such a slot). If a copy
///    still waits at V-1 with a slot of step V, step V is committed, since somebody applied it:
///    roll it forward.
/// 3. Otherwise V is everywhere, and V+1 is computed again.
///
/// A shard without a usable copy is lost, and with it the run's newest steps. Reports must be those
/// of all members of the generation.
Verdict judge(int shards, std::span<const Report> reports);

/// What is fixed for a job.
struct JobShape {
  int shards = 16;
  int micro_batches = 1;
  int backups = 1;             ///< 0..2
  bool replicate_all = false;  ///< ddp
  int reference = 0;  ///< workers with which a step has `micro_batches`; 0: it always has so many
  int shard_group = 0;         ///< hybrid sharding: members per copy of the whole state; 0: all

  bool operator==(const JobShape&) const = default;
};

/// What a job goes back to when copies are lost.
struct DurableState {
  Step step;
  int64_t position = 0;  ///< micro-batches that the steps up to it have used

  bool operator==(const DurableState&) const = default;
};

/// Completes a verdict into what the members of the generation are told: placement, transfers, who
/// computes what. `reports` by rank. `primaries`: by shard, the worker that led it last (empty at
/// the start); it keeps it if it can. A loss becomes a restore of `checkpoint`.
///
/// Where the batch follows the size: `sizes` are those of the steps of generations before. A step
/// that may have been begun keeps its micro-batches; with a planned change none has been, and the
/// generation's own size counts from its first step on.
Decision complete_decision(const JobShape& shape, const Membership& membership,
                           std::span<const Report> reports, const Verdict& verdict,
                           std::span<const WorkerId> primaries, const DurableState& checkpoint,
                           const StepSizes& sizes = {});

/// What a decision makes known of the sizes of steps.
void note_sizes(const Decision& decision, StepSizes& sizes);

// What a worker derives from a decision. The rules are here, next to the decision, so that they
// exist once.

/// The copy is evidence for the decision and needs no transfer: complete, and at the version (with
/// the slot) that the step needs. Recompute: version step-1. Roll forward: version step, or step-1
/// with the slot of the attempt that counts.
bool is_ready(const Decision& decision, const CopyState& copy);

/// Whether a copy may stay when the decision begins; others are dropped. A roll-forward also keeps
/// the copy at step-1 that lacks the slot, and adds the slot to it: until the recovery commit it
/// may be the only state from which the step can be computed again, if those who have the slot are
/// lost next.
bool keeps_copy(const Decision& decision, const CopyState& copy);

/// Whether a copy's slot survives the decision; every other slot is dropped (R7).
bool keeps_slot(const Decision& decision, const CopyState& copy);

/// g(t) is acknowledged only by a complete copy at version t-1 (R6).
bool may_acknowledge(const CopyState& copy, SlotTag slot);

/// Ranks whose acknowledgement the primary of `shard` waits for, without the primary: until the
/// first commit of the generation also those that will drop their copy at it (R4).
std::vector<Rank> acknowledging(const Decision& decision, ShardId shard, bool first_commit);

/// Whether `rank` still holds `shard` after the first commit of the generation.
bool holds_after_commit(const Decision& decision, ShardId shard, Rank rank);

}  // namespace craton::cluster
