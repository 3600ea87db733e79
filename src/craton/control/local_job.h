#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "craton/cluster/membership.h"
#include "craton/control/run_journal.h"
#include "craton/control/worker_process.h"
#include "craton/protocol/messages.h"
#include "craton/recipe/recipe.h"

namespace craton::control {

struct LocalJobOptions {
  std::string worker_program;  ///< find_worker_program()
  std::string recipe_path;     ///< the resolved recipe, for the workers
  int64_t restore_step = 0;    ///< the checkpoint to begin with; 0: the initial state
  std::function<bool()> stop_requested = [] {
    return false;
  };  ///< true: finish the step, save, end
};

/// A job on this machine: operator and agent in one process and one thread. The operator is the
/// state machine of cluster/; this brings it events (workers' messages, their ends, the time) and
/// carries out its actions: the log is made durable before anybody hears of it, workers are
/// started, told, and stopped.
class LocalJob {
 public:
  LocalJob(const recipe::Recipe& recipe, LocalJobOptions options, RunJournal& journal);
  /// Kills what still runs.
  ~LocalJob();

  /// Runs the job to its end. Error when it cannot go on, with what the last worker said.
  protocol::Done run();

 private:
  struct Worker {
    int number = 0;
    std::unique_ptr<WorkerProcess> process;
    std::optional<protocol::Hello> hello;
    std::optional<protocol::Done> done;
    bool left = false, stopped = false, told_to_stop = false;
    std::string failure;  ///< what it said before it ended
  };

  cluster::Instant now() const;
  void start_worker();
  void event(decltype(cluster::Event::what) what);
  void carry_out(const std::vector<cluster::Action>& actions);
  bool persist(const cluster::LogRecord& record);
  void wait_for_something();
  void read_messages(Worker& worker);
  void handle(Worker& worker, const protocol::Message& message);
  void handle_step(const protocol::StepDone& step);
  void handle_part(const protocol::CheckpointPart& part);
  void handle_exit(Worker& worker);
  void pass_on_stop();
  void tell(cluster::WorkerId id, const protocol::Message& message);
  void record(const cluster::PublishEvent& event);
  int training_workers() const;
  Worker* find(cluster::WorkerId id);

  const recipe::Recipe recipe_;
  const LocalJobOptions options_;
  RunJournal& journal_;
  cluster::MembershipState state_;
  std::vector<std::unique_ptr<Worker>> workers_;
  int started_ = 0;
  std::optional<cluster::Instant> wake_at_;
  std::vector<protocol::CheckpointPart> parts_;
  std::optional<protocol::Done> done_;
  std::optional<cluster::EndJob> end_;
  bool introduced_ = false;
  std::chrono::steady_clock::time_point last_commit_;
  uint64_t last_generation_ = 0;
};

}  // namespace craton::control
