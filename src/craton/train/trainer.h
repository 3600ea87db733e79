#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "craton/comm/communicator.h"
#include "craton/model/job_callback.h"
#include "craton/model/model.h"
#include "craton/parallel/context_peers.h"
#include "craton/parallel/gathered_parameters.h"
#include "craton/parallel/step_engine.h"
#include "craton/protocol/messages.h"
#include "craton/recipe/recipe.h"
#include "craton/tensor/gradient_hooks.h"
#include "craton/train/training_data.h"

namespace craton::train {

/// What a trainer tells the outside. All calls come from the thread that trains.
class TrainingListener {
 public:
  virtual ~TrainingListener() = default;
  /// A step is committed and applied.
  virtual void on_step(const protocol::StepDone& step) = 0;
  /// Asked before each commit: true ends training after that step, on all workers alike.
  virtual bool stop_requested() = 0;
  /// Asked before each commit: a planned next generation has been announced; once all members have
  /// heard of it they leave this one together.
  virtual bool next_generation_announced() = 0;
};

/// Model, data and training state of one worker, over all generations; the step loop.
class Trainer {
 public:
  /// Builds the model, opens the data unless they are given, lays the parameters out flat. Error
  /// when that is not possible (unknown model, missing volume, too little memory).
  Trainer(const recipe::Recipe& recipe, comm::Endpoint& endpoint,
          std::shared_ptr<TrainingData> data = nullptr);
  ~Trainer();

  /// Computes a micro-batch for nothing, so that libraries, kernels, memory and data are warm
  /// before the others wait for this worker.
  void warm_up();

  const recipe::Recipe& recipe() const { return recipe_; }
  model::Model& model() { return *model_; }
  TrainingData& data() { return *data_; }
  const std::shared_ptr<TrainingData>& shared_data() const { return data_; }
  /// Opens the data anew: nothing that was read stays.
  void reopen_data();
  parallel::ShardedState& state() { return *state_; }
  const parallel::FlatLayout& layout() const { return state_->layout(); }
  /// What training does not change, by name: frozen parameters and buffers. Every worker has them
  /// from the model's constructor; they are saved, not communicated.
  const std::vector<std::pair<std::string, torch::Tensor>>& fixed() const { return fixed_; }

  struct Outcome {
    enum class Kind {
      kFinished,        ///< the recipe's last step is done
      kStopped,         ///< before that, on request
      kLeft,            ///< this worker was asked to leave and has
      kNextGeneration,  ///< the membership changes; report, and come back with the next decision
    };
    Kind kind = Kind::kFinished;
    std::string state_sha256;  ///< finished or stopped: of the whole training state
  };

  /// A generation in which this worker took part has ended; call it before `report`.
  void before_membership_change(const model::MembershipChange& change);

  /// Carries out `decision` and trains in the generation of `change` until it or the job ends.
  /// Ranks below `change.workers` train, the others leave. What a member hears of the next
  /// generation comes through the listener.
  Outcome train(comm::Communicator& communicator, const cluster::Decision& decision,
                const model::MembershipChange& change, TrainingListener& listener);

  /// What the operator needs to know for the next generation. Frozen: nothing of the last one
  /// changes it any more.
  cluster::Report report() const;

  const parallel::StepProgress& progress() const { return progress_; }
  /// Samples that all committed steps have used.
  int64_t samples_seen() const { return data_->first_sample(progress_.position); }

  /// Called when a checkpoint is due, by all training members at the same step.
  using CheckpointWriter =
      std::function<void(comm::Communicator& communicator, const parallel::Assignment& assignment)>;
  void set_checkpoint_writer(CheckpointWriter save) { save_ = std::move(save); }
  struct Restored {
    int64_t updates = 0, samples_seen = 0;
  };
  /// Called to fill in parameters and moments of the held shards from the durable checkpoint of a
  /// step.
  using CheckpointReader = std::function<Restored(Step step)>;
  void set_checkpoint_reader(CheckpointReader load) { load_ = std::move(load); }
  /// Called on rank 0 when training is over, while the model can still compute.
  void set_finisher(std::function<void()> finish) { finish_ = std::move(finish); }

 private:
  void lay_out();
  tensor::BlockPolicy block_policy() const;
  double compute(int64_t unit);
  double validate(parallel::StepEngine& engine, Step step);
  void restore(parallel::StepEngine& engine, const cluster::Decision& decision);
  void fill_with_initial_parameters();
  parallel::StepResult run_step(parallel::StepEngine& engine, Step step,
                                TrainingListener& listener);
  void expect_data(const parallel::StepEngine& engine, Step next);
  double learning_rate_of(Step step, int32_t units) const;
  parallel::UpdateRule rule(Step step, int32_t units) const;
  /// Null where windows are not shared, or this worker leaves.
  std::unique_ptr<parallel::CommunicatorPeers> peers_of(comm::Communicator& communicator,
                                                        const model::MembershipChange& change);
  protocol::StepDone describe(const parallel::StepResult& result, Generation generation) const;
  bool due(int64_t every, Step step) const;
  void tell_committed(const parallel::StepResult& result, Generation generation);

  const recipe::Recipe recipe_;
  /// How the engine runs. Workers of a context compute parts of one micro-batch at the same time,
  /// so they add nothing up before they send, whatever the strategy.
  const parallel::Strategy strategy_;
  comm::Endpoint& endpoint_;
  std::shared_ptr<model::Model> model_;
  std::shared_ptr<TrainingData> data_;
  std::unique_ptr<parallel::CommunicatorPeers> peers_;  // of a context, in a generation
  std::unique_ptr<parallel::ShardedState> state_;
  std::unique_ptr<parallel::GradientBuffers> gradients_;
  std::vector<std::unique_ptr<tensor::GradientHook>> hooks_;
  std::vector<std::pair<std::string, torch::Tensor>> fixed_;
  std::unique_ptr<parallel::GatheredParameters> gathered_;  // null where all parameters are kept
  CheckpointWriter save_;
  std::function<void()> finish_;
  CheckpointReader load_;
  parallel::StepProgress progress_;
  std::vector<std::shared_ptr<model::JobCallback>> callbacks_;
  Step told_;  // newest step that the callbacks know as committed
};

}  // namespace craton::train
