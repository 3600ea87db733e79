#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "craton/cluster/membership.h"
#include "craton/testing/toy_training.h"

namespace craton::testing {

/// Rules that can be taken out, one at a time, to show that the simulation would notice.
enum class Mutation {
  kNone,
  kNoAcknowledgement,   ///< commit without waiting for the holders' acknowledgements
  kNoFence,             ///< go on in g after having reported for g+1 (R3)
  kApplyBeforeHeal,     ///< roll forward applies at once, second copies afterwards (R1)
  kRestoreWithoutSlot,  ///< a restored copy counts before its redo slot arrived (R2)
  kDropUnready,  ///< a roll-forward drops copies that lack the slot before the slot has come (R2)
  kReportIncomplete,         ///< a copy whose transfer was cut off is reported as complete (R2)
  kDecideEarly,              ///< decide before all members have reported (R3)
  kReadmitWithCopies,        ///< an excluded worker comes back with what it held (R4)
  kLeaverDropsEarly,         ///< a leaving holder drops its copies before the first commit (R4)
  kForgetCommit,             ///< the commit's result is not reported (R5)
  kResultStaysWithItsOwner,  ///< a decision that carries a commit's result does not make it known
                             ///< (R5)
  kAcknowledgeAnything,      ///< acknowledge without a copy at version t-1 (R6)
  kKeepOldSlots,  ///< recompute keeps the slots of the attempt before, and tags are ignored (R7)
  kNoPersist,     ///< announce before the record is durable (R8)
  kNoCompareAndSwap,   ///< two operators write one log (R8)
  kNoLease,            ///< no waiting for a fenced last holder (R10)
  kJoinWithoutGather,  ///< a joiner computes with the parameters that it has (R11)
  kCountTwice,         ///< kept and recomputed sums both count
};
constexpr int kMutations = 19;
/// "NoFence".
const char* mutation_name(Mutation mutation);

/// What the workers do in `step` phases; values are only for traces and reports.
enum class WorkerPhase {
  kStarting,
  kIdle,
  kFenced,
  kHeal,
  kBarrier,
  kParameters,
  kCompute,
  kReduce,
  kCommit,
  kApply,
  kGather,
  kDone
};

struct SimulatedSlot {
  cluster::SlotTag tag;
  uint64_t gradient = 0;
};

struct SimulatedCopy {
  int64_t version = 0;
  uint64_t value = 0;
  std::optional<SimulatedSlot> slot;
  bool complete = true;
};

// Messages between workers. All belong to one generation; a worker drops older ones and keeps newer
// ones for later.
struct PartialSums {
  int64_t step;
  uint64_t micro_batches;                      // as bits
  std::vector<std::pair<int, uint64_t>> sums;  // (shard, sum)
};
struct StoreSlot {
  int shard;
  SimulatedSlot slot;
};
struct SlotStored {
  int shard;
  cluster::SlotTag tag;
};
struct EnterCommit {
  int64_t step;
  bool recovery;
  Generation seen;  // newest planned generation that the sender has heard of
  double norm_part;
};
struct GiveParameters {
  int64_t version;
  std::vector<std::pair<int, uint64_t>> values;
};
struct FetchCopy {
  int shard;
};
struct CopyBytes {
  int shard;
  bool last;  // a copy travels in two chunks: state, then slot
  SimulatedCopy copy;
};
struct PeerMessage {
  Rank from, to;
  Generation generation;
  std::variant<PartialSums, StoreSlot, SlotStored, EnterCommit, GiveParameters, FetchCopy,
               CopyBytes>
      what;
};

/// A step as one worker sees it.
struct WorkerStep {
  cluster::WorkerId worker;
  Generation generation;
  int64_t step = 0, position = 0;
  int micro_batches = 0;
};

/// What workers reach of the world around them.
class WorkerWorld {
 public:
  virtual ~WorkerWorld() = default;
  virtual void send(const cluster::WorkerInfo& to, PeerMessage message) = 0;
  virtual void tell_operator(cluster::WorkerId from, cluster::Event event) = 0;
  virtual void violate(const std::string& what) = 0;
  virtual uint64_t random(uint64_t bound) = 0;
  /// A worker completed the commit of `slot`, under this decision.
  virtual void committed(cluster::WorkerId worker, const cluster::Decision& decision,
                         cluster::SlotTag slot, double norm) = 0;
  /// A worker changed its copy of a shard to the state after `slot.step`.
  virtual void applied(cluster::WorkerId worker, int shard, cluster::SlotTag slot,
                       uint64_t value) = 0;
  /// A worker begins to compute a step, under this decision.
  virtual void begun(WorkerStep step) = 0;
  virtual void checkpoint(int64_t step, const ToyTraining::Values& values) = 0;
  virtual const ToyTraining::Values& checkpoint_of(int64_t step) = 0;
  /// A worker has done the first commit of a generation that it does not train in.
  virtual void left(cluster::WorkerId worker, cluster::Role role) = 0;
};

struct SimulatedJob {
  ToyTraining training;
  cluster::JobShape shape;
  bool keeps_sums = true;  ///< ddp and zero1; false: zero2 frees what it has sent
  int64_t steps = 4;
  int64_t checkpoint_every = 3;
  Mutation mutation = Mutation::kNone;
};

/// One training process: the step protocol and its part of recovery as a state machine. It decides
/// nothing by itself: fences, decisions and what follows from them come from `cluster/`.
class SimulatedWorker {
 public:
  SimulatedWorker(const SimulatedJob& job, WorkerWorld& world, cluster::WorkerInfo info)
      : job_(job), world_(world), info_(std::move(info)) {}

  const cluster::WorkerInfo& info() const { return info_; }
  WorkerPhase phase() const { return phase_; }
  Generation generation() const { return membership_.generation; }
  int64_t step_number() const { return step_; }
  const cluster::Membership& membership() const { return membership_; }
  const std::map<int, SimulatedCopy>& copies() const { return copies_; }
  const ToyTraining::Values& parameters() const { return parameters_; }

  void become_ready();
  void say_hello();  ///< to an operator that has restarted
  bool can_step() const;
  void step();  ///< one local action: a micro-batch, or one shard's update
  void hear(const cluster::Announce& announce);
  void hear(const cluster::SendDecision& decision);
  void receive(PeerMessage message);
  void take_copies(const SimulatedWorker& other) { copies_ = other.copies_; }  // kReadmitWithCopies

 private:
  bool mutated(Mutation m) const { return job_.mutation == m; }
  bool running() const { return phase_ >= WorkerPhase::kHeal && phase_ < WorkerPhase::kDone; }
  cluster::Role role() const { return membership_.members[rank_.value()].role; }
  bool training() const { return role() == cluster::Role::kTraining; }
  const cluster::Decision& decision() const { return *decision_; }
  Rank primary(int shard) const { return decision_->placement.holders[shard][0]; }

  void fence(const cluster::Membership& membership);
  void report(Generation generation);
  void begin(const cluster::Decision& decision);
  void begin_restore();
  void begin_recompute();
  void begin_roll_forward();
  void become_done();
  /// Step `step_`, with the micro-batches that it has by now.
  void begin_step();
  std::vector<int> regular_share() const;
  uint64_t all_micro_batches() const { return (uint64_t{1} << micro_batches_) - 1; }
  void fetch_missing();
  void give(int64_t version, const std::vector<Rank>& to);
  void advance();
  bool advance_once();
  bool reduce_and_store();
  bool may_enter() const;
  void enter(bool recovery);
  void complete_commit();
  void end_apply();
  bool adopt_parameters(int64_t version);
  bool holds_now(int shard) const;
  bool all_entered(bool recovery) const;
  size_t participants() const;
  void finish_step();
  void send_partials();
  void apply_copy(int shard, SimulatedCopy& copy);

  void handle(Rank from, const PartialSums& m);
  void handle(Rank from, const StoreSlot& m);
  void handle(Rank from, const SlotStored& m);
  void handle(Rank from, const EnterCommit& m);
  void handle(Rank from, const GiveParameters& m);
  void handle(Rank from, const FetchCopy& m);
  bool try_store(Rank from, const StoreSlot& m);
  void handle(Rank from, const CopyBytes& m);

  template <typename What>
  void send(Rank to, What what) {
    world_.send(membership_.members[to.value()].worker,
                {rank_, to, membership_.generation, std::move(what)});
  }
  cluster::CopyState state_of(int shard, const SimulatedCopy& copy) const;

  const SimulatedJob& job_;
  WorkerWorld& world_;
  cluster::WorkerInfo info_;
  WorkerPhase phase_ = WorkerPhase::kStarting;

  cluster::Membership membership_;               ///< in force, or being decided
  std::optional<cluster::Membership> pending_;   ///< planned, takes effect at a boundary
  std::optional<cluster::Membership> unfenced_;  ///< kNoFence: reported for it, not stopped
  std::optional<cluster::Decision> decision_;
  std::optional<Rank> in_;  ///< rank in `membership_`; none: excluded
  Rank rank_;
  bool first_commit_ = true;
  Generation newest_generation_;  ///< that it was a member of

  int64_t step_ = 0;
  int64_t position_ = 0;   ///< micro-batches of the steps before `step_`
  int micro_batches_ = 0;  ///< of `step_`
  std::map<int, SimulatedCopy> copies_;
  ToyTraining::Values parameters_;
  int64_t parameters_version_ = -1;
  std::optional<cluster::CommitResult> last_commit_;

  int64_t sums_step_ = 0;
  int sums_of_ = 0;                            ///< micro-batches of that step
  std::map<int, std::vector<uint64_t>> sums_;  ///< by micro-batch: gradients by shard
  std::vector<int> to_compute_;
  struct Reduction {
    uint64_t micro_batches = 0, sum = 0;
    bool stored = false;
    std::set<Rank> acknowledged;
  };
  std::map<std::pair<int64_t, int>, Reduction>
      reductions_;  ///< by (step, shard): shards that this worker leads
  std::vector<std::pair<Rank, StoreSlot>> early_slots_;  ///< arrived before the copy was restored
  std::map<std::pair<int64_t, bool>, std::map<Rank, EnterCommit>> entered_;
  std::map<int64_t, std::map<int, uint64_t>> given_;
  std::vector<Rank> owed_parameters_;
  bool switch_after_apply_ = false;
  std::vector<PeerMessage> later_;  ///< of generations to come
};

}  // namespace craton::testing
