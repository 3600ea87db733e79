#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "craton/base/strong.h"

namespace craton::model {

class Model;

/// A change of membership as one worker sees it.
struct MembershipChange {
  Generation generation;  ///< the one that begins
  bool planned = false;   ///< a resize, a drain or a joining replacement; false: a worker was lost
  int rank = -1;          ///< of this worker in it; -1: it is no member any more
  int workers = 0;        ///< that train in it
  int previous_workers = 0;  ///< that trained in the generation that ends; 0: this worker is new
};

/// A step that is committed and applied on this worker.
struct CommittedStep {
  Step step;
  Generation generation;
  double loss = 0, gradient_norm = 0;
  bool applied = true;  ///< false: something was not finite, and the step changed nothing
  /// Sample numbers whose gradients this worker has given to the step. Over all workers each number
  /// of the step appears once, however often a failure made somebody compute it.
  std::vector<int64_t> contributed;
};

/// User code that hears what happens to the job. Each worker has its own and calls it on the thread
/// that trains; while a handler runs, the other workers wait. A handler must not change parameters
/// (after a change of membership they are those of the last committed step on all workers, and must
/// stay that) nor talk to other workers. An exception ends the worker, as one of the model's does.
///
/// A model that derives from this class too is called without being registered.
class JobCallback {
 public:
  virtual ~JobCallback() = default;
  /// This worker has stopped in its generation, and has not reported yet.
  virtual void before_membership_change(const MembershipChange&) {}
  /// This worker stands at the beginning of the generation's first step; also at the job's start.
  virtual void after_membership_change(const MembershipChange&) {}
  /// This worker was asked to leave, or the job's new size has no place for it: it gives its copies
  /// to others and computes no more. Then it ends, or waits beside the job as a new worker, with a
  /// model and callbacks of its own.
  virtual void on_drain(const MembershipChange&) {}
  virtual void on_commit(const CommittedStep&) {}
};

using JobCallbackFactory = std::function<std::shared_ptr<JobCallback>(Model& model)>;

/// Every worker of this program makes one, with its model. Call before main (a static object) or at
/// the start of main.
bool register_job_callback(JobCallbackFactory factory);

/// One of each registered factory, and the model itself if it is one. Each lives as long as the
/// model.
std::vector<std::shared_ptr<JobCallback>> make_job_callbacks(const std::shared_ptr<Model>& model);

}  // namespace craton::model
