#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "craton/base/strong.h"
#include "craton/cluster/micro_batches.h"
#include "craton/cluster/placement.h"

/// What operator, agent and worker tell each other, as plain values. `protocol/craton.proto` has
/// the same messages for the wire.
namespace craton::cluster {

/// The incarnation of a worker: unique per process start, so a process that comes back is another
/// worker.
using WorkerId = Strong<struct WorkerIdTag, uint64_t>;

/// Time by some monotonic clock, since an origin that does not matter. `cluster/` only compares
/// instants that it was given.
using Duration = std::chrono::milliseconds;
using Instant = std::chrono::milliseconds;

struct WorkerInfo {
  WorkerId id;
  std::string node;     ///< host; the failure domain as soon as there are two
  std::string address;  ///< how peers reach it; opaque here
  std::string
      fingerprint;  ///< kernels, build, threads: what changes bits. Workers of one job agree in it

  bool operator==(const WorkerInfo&) const = default;
};

enum class Role {
  kTraining,
  kLeaving,   ///< computes nothing; a full holder, with slot and acknowledgement, until the first
              ///< commit of its generation, then it goes (R4)
  kLeftOver,  ///< the same, but its process stays: a size that is allowed has no place for it now,
              ///< and it comes back, empty, as a new worker beside the job
};

struct Member {
  WorkerInfo worker;
  Role role = Role::kTraining;

  bool operator==(const Member&) const = default;
};

/// Who is in, from when. The rank of a member is its index: training members first, leaving ones
/// last.
struct Membership {
  Generation generation;
  /// A planned change takes effect when a commit shows that all members have heard of it; an
  /// unplanned one at once, by abort.
  bool planned = false;
  std::vector<Member> members;

  bool operator==(const Membership&) const = default;
};

std::optional<Rank> rank_of(const std::vector<Member>& members, WorkerId id);
int training_members(const std::vector<Member>& members);

/// Which attempt at a step a redo slot belongs to: a step that is computed again gets the tag of
/// the new generation (R7).
struct SlotTag {
  Step step;
  Generation generation;

  auto operator<=>(const SlotTag&) const = default;
};

/// One shard as one holder has it: the state after step `version`, and the reduced gradient of the
/// step after that, if it is there.
struct CopyState {
  ShardId shard;
  Step version;
  std::optional<SlotTag> slot;
  bool complete = true;  ///< false: an apply or a transfer did not come to its end; no holder (R2)
  uint64_t digest = 0;   ///< of the state, as computed at apply; 0: unknown

  bool operator==(const CopyState&) const = default;
};

/// What a commit decided; kept and reported until the next commit, since it decides for whoever
/// missed it (R5).
struct CommitResult {
  SlotTag slot;
  double norm = 0;
  bool finite = true;

  bool operator==(const CommitResult&) const = default;
};

/// Sums of micro-batch gradients of one step that a worker still holds. Empty where sent gradients
/// are freed (zero2 and up).
struct HeldSums {
  Step step;
  std::vector<MicroBatchRange> ranges;
  int micro_batches = 0;  ///< of the step, as it was begun

  bool operator==(const HeldSums&) const = default;
};

/// A worker's frozen state for the decision of `generation`; nothing of an older generation changes
/// it any more (R3).
struct Report {
  WorkerId worker;
  Generation generation;
  Generation took_part_in;  ///< last generation whose decision it had carried out or begun; 0:
                            ///< none, its copies are empty
  std::vector<CopyState> copies;
  std::optional<CommitResult> last_commit;
  HeldSums held;
  Step parameters{-1};  ///< version of the parameters that it could compute with; -1: none

  bool operator==(const Report&) const = default;
};

enum class DecisionKind {
  kRollForward,  ///< step `step` is committed: state and slot to all holders, commit, apply
  kRecompute,  ///< nobody committed `step`: it is computed (again); also how a planned change and a
               ///< start go on
  kRestore,    ///< all state is replaced by that of the durable checkpoint of `step`; step 0 is the
               ///< initial state
};

/// State (and, in a roll-forward, slot) that `receivers` copy from any of `donors`; a receiver with
/// the same version needs the slot only.
struct Transfer {
  ShardId shard;
  std::vector<Rank> receivers, donors;

  bool operator==(const Transfer&) const = default;
};

/// A member that is no holder by the placement, but stays one until the first commit of the
/// generation (R4).
struct ExtraHolder {
  ShardId shard;
  Rank rank;

  bool operator==(const ExtraHolder&) const = default;
};

struct Decision {
  Generation generation;
  DecisionKind kind = DecisionKind::kRecompute;
  Step step;
  int micro_batches = 0;        ///< of `step` (restore: of the step after it)
  int later_micro_batches = 0;  ///< of the steps after that
  /// Micro-batches that all steps before `step` have used (restore: those up to `step`).
  int64_t position = 0;
  /// Roll forward: the attempt whose slots count; all others are dropped.
  Generation slot_generation;
  /// Roll forward: what the commit decided, when a survivor knows it; otherwise nobody has applied,
  /// and the norm is taken from the slots.
  std::optional<CommitResult> commit;
  Placement placement;
  std::vector<ExtraHolder> extras;
  std::vector<Transfer> transfers;
  std::vector<MicroBatchShare>
      shares;  ///< recompute: by rank, for `step` only; later steps use `micro_batch_ranges`
  /// Training members that must be given the parameters of the step before `step` (recompute)
  /// before they compute.
  std::vector<Rank> needs_parameters;
  int64_t lost_steps =
      0;  ///< finished steps that are computed again; 0 unless more was lost than there were copies

  bool operator==(const Decision&) const = default;
};

}  // namespace craton::cluster
