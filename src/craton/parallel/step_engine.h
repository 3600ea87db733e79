#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "craton/cluster/messages.h"
#include "craton/comm/communicator.h"
#include "craton/parallel/assignment.h"
#include "craton/parallel/bucket_reducer.h"
#include "craton/parallel/gradient_buffers.h"
#include "craton/parallel/operations.h"
#include "craton/parallel/parameter_windows.h"
#include "craton/parallel/progress.h"
#include "craton/parallel/sharded_state.h"
#include "craton/parallel/wire.h"

namespace craton::parallel {

/// The numbers of one AdamW update (Loshchilov and Hutter, "Decoupled weight decay regularization",
/// 2019). Functions of the step, or of the recipe.
struct UpdateRule {
  double learning_rate = 1e-3;
  double beta1 = 0.9, beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.05;
  double clip_norm = 0;  ///< 0: no clipping
};

struct StepResult {
  Step step;
  int32_t micro_batches = 0;  ///< of this step
  int64_t position = 0;       ///< micro-batches of all steps before it
  double loss = 0;  ///< mean over the micro-batches, added up in a fixed tree over their numbers
  double gradient_norm = 0;  ///< of the mean gradient, before clipping; may be NaN or infinite
  uint64_t any_wish =
      0;  ///< wishes of the members, or-ed and and-ed: all learn them at the same step
  uint64_t every_wish = 0;
  bool applied = true;  ///< false: a loss or gradient was not finite, nothing was changed
  /// Micro-batches whose sums came from this worker. Over all workers each appears once; those of a
  /// worker that was lost after it gave them are missing when the step is rolled forward.
  std::vector<int32_t> contributed;
  /// Of this worker; reduce is what was not hidden behind compute.
  double compute_seconds = 0, reduce_seconds = 0, commit_seconds = 0, apply_seconds = 0,
         gather_seconds = 0;
  /// Of this worker: reducing, committing and gathering, also what was hidden behind compute.
  double communication_seconds = 0;
  uint64_t sent_bytes = 0;  ///< handed to others, within a host also what they did not read
};

/// What the operator needs to know for the next generation. Frozen: nothing of the last one changes
/// it any more (R3). Worker and generation are left to the caller.
cluster::Report make_report(const ShardedState& state, const GradientBuffers& gradients,
                            const StepProgress& progress, Strategy strategy);

/// What a step needs from its user.
struct StepWork {
  UpdateRule rule;
  /// Runs forward and backward of a micro-batch, delivers each gradient to the GradientBuffers,
  /// returns the loss.
  std::function<double(int32_t micro_batch)> compute;
  /// Asked right before the commit; bits for any_wish and every_wish.
  std::function<uint64_t()> wishes = [] { return uint64_t{0}; };
  /// Skip the gather when the commit says so: the next generation gives out parameters itself (a
  /// newcomer is admitted after apply, R11).
  std::function<bool(const StepResult&)> skips_gather = [](const StepResult&) { return false; };
};

/// Carries out the operator's decision for one generation, then runs steps in it: compute, reduce,
/// store, commit, apply, gather.
///
/// Nothing of the state changes before a commit, and nothing communicates inside apply. Errors with
/// Reaction::kReconfigure (a peer is gone, the generation has ended) leave everything as it has to
/// be reported; destroy the engine, then report.
class StepEngine {
 public:
  /// All references must outlive the engine. Ranks below `training` compute, the others leave with
  /// the first commit (R4).
  StepEngine(ShardedState& state, GradientBuffers& gradients, StepProgress& progress,
             comm::Communicator& communicator, Strategy strategy, const cluster::Decision& decision,
             int training);
  /// Aborts what is in flight.
  ~StepEngine();

  Rank rank() const { return communicator_.rank(); }
  /// Of the next step.
  const Assignment& assignment() const { return assignment_; }
  /// Of the steps after the next one, unless the generation ends before.
  int32_t later_micro_batches() const { return decision_.later_micro_batches; }

  /// Carries out the decision: second copies are restored from their donors, a committed step is
  /// rolled forward (its result is returned), parameters reach those who lack them. A decision to
  /// restore a checkpoint needs the state filled in by the caller first (`restored`).
  std::optional<StepResult> enter(const UpdateRule& rule_of_decided_step);

  /// Fresh state or a checkpoint's: parameters of all and moments of the held shards are those of
  /// `step`. Allocates the shards to fill.
  void hold_shards();
  void restored(Step step, int64_t updates);

  /// The parameters of the newest step as all workers hold them together, for whoever computes:
  /// inside `StepWork::compute` and between two steps. Null where every worker keeps all.
  ParameterWindows* windows() { return windows_ ? &*windows_ : nullptr; }

  /// Makes the state after `step` from the state after step-1.
  StepResult run(Step step, const StepWork& work);

  /// Values of items 0..count-1, of which each worker computes some (item i on rank i mod world
  /// size), on every worker.
  std::vector<double> spread(Step step, int64_t count,
                             const std::function<double(int64_t item)>& compute);

  /// Compares the copies of all shards, before they are written down for good. A worker whose
  /// memory contradicts its record ends (kCorrupt). If copies differ and none does, all of them are
  /// given up, so that the operator goes back to the newest checkpoint. Also done in the commit,
  /// every few steps.
  void compare_copies();

  /// SHA-256 over step, update count and, chunk by chunk in the order of the flat space, the
  /// SHA-256 of parameters and both moments. The same on all workers and for any number of them.
  std::string state_digest(Step step);

 private:
  void start_reducer();
  void compute_and_reduce(Step step, const StepWork& work);
  std::vector<int32_t> contribution() const;
  void hand_over(int round, size_t bucket);
  void commit(Step step, uint64_t wishes, const std::vector<double>& squares, bool compare_copies,
              StepResult& result);
  void apply(const UpdateRule& rule, const StepResult& result);
  void gather(Step step);
  void after_first_commit();
  void compare_digests(std::vector<Reader>& readers);
  [[noreturn]] void distrust(const std::vector<ShardId>& differing);
  void flip_memory();
  void keep_sums();
  void begin_steps_of(int32_t micro_batches);
  void transfer();
  void send_copies(const cluster::Transfer& transfer, Rank receiver);
  void receive_copies(const cluster::Transfer& transfer);
  StepResult roll_forward(const UpdateRule& rule, double loss, std::optional<int64_t> base_updates,
                          std::optional<int64_t> next_updates);
  /// Updated parameters to `receivers`, or windows into them to all who compute.
  void give_parameters(Phase phase, Step version, const std::vector<Rank>& receivers);
  /// Copies that were kept although somebody else was to hold them.
  void drop_unassigned();
  std::vector<double> slot_squares();
  /// Every worker's bytes, by rank.
  std::vector<std::vector<std::byte>> exchange(uint64_t operation, std::span<const std::byte> mine);

  ShardedState& state_;
  GradientBuffers& gradients_;
  StepProgress& progress_;
  comm::Communicator& communicator_;
  const Strategy strategy_;
  const cluster::Decision decision_;
  const int training_;
  const FlatLayout& layout_;
  int32_t micro_batches_;  // of the next step
  bool first_ = true;      // no commit in this generation yet
  Assignment assignment_;
  std::unique_ptr<BucketReducer> reducer_;
  std::optional<ParameterWindows> windows_;
  std::vector<std::unique_ptr<comm::PendingSend>>
      parameter_sends_;  // must be over before parameters change again
};

}  // namespace craton::parallel
