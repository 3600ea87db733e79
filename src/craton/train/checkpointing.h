#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "craton/checkpoint/checkpoint.h"
#include "craton/comm/communicator.h"
#include "craton/parallel/assignment.h"
#include "craton/protocol/messages.h"
#include "craton/train/trainer.h"

namespace craton::train {

/// Writes this worker's part of checkpoints beside training: the state is copied at the step's end
/// (a collective), then a thread writes it and tells the agent, who makes the checkpoint whole when
/// all parts are there. One at a time: the next one waits for the one before.
class CheckpointSaver {
 public:
  using Announce = std::function<void(const protocol::CheckpointPart& part)>;
  /// `root`: the job's checkpoint folder. `announce` is called on the writing thread.
  CheckpointSaver(Trainer& trainer, std::filesystem::path root, Announce announce);
  CheckpointSaver(const CheckpointSaver&) = delete;
  CheckpointSaver& operator=(const CheckpointSaver&) = delete;
  /// Waits for the write in progress.
  ~CheckpointSaver();

  /// A collective of the members that train, after a step.
  void save(comm::Communicator& communicator, const parallel::Assignment& assignment);
  /// Until the write in progress is over; throws what went wrong with it.
  void wait();

 private:
  Trainer& trainer_;
  const std::filesystem::path root_;
  const Announce announce_;
  std::thread thread_;
  std::exception_ptr error_;
};

/// Where a job has the checkpoint of `step`: among its own, else where `checkpoint.resume` says
/// that it began.
std::filesystem::path checkpoint_of(const recipe::CheckpointRecipe& recipe, Step step);

/// Fills the trainer's parameters, and the moments of the shards that it holds, from a checkpoint
/// that any number of workers has written with any strategy. Error when its parameters are not the
/// model's.
Trainer::Restored load_checkpoint(Trainer& trainer, const std::filesystem::path& checkpoint);

}  // namespace craton::train
