#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "craton/cluster/failure_detector.h"
#include "craton/cluster/membership.h"
#include "craton/control/operator_service.h"
#include "craton/control/run_journal.h"
#include "craton/control/worker_process.h"
#include "craton/protocol/messages.h"
#include "craton/recipe/recipe.h"

namespace craton::control {

struct LocalJobOptions {
  std::string worker_program;   ///< find_worker_program()
  std::string recipe_path;      ///< the resolved recipe, for the workers
  int64_t restore_step = 0;     ///< the checkpoint to begin with; 0: the initial state
  int64_t restore_samples = 0;  ///< that the steps up to it have used
  bool take_over = false;  ///< goes on with the log and the live workers of an operator that is
                           ///< gone, instead of `restore_step`
  std::function<bool()> stop_requested = [] {
    return false;
  };  ///< true: finish the step, save, end
  std::function<bool()> abandon_requested = [] { return false; };  ///< true: end at once
};

/// A job on this machine: operator and agent in one process and one thread. The operator is the
/// state machine of cluster/; this brings it events (workers' messages, their ends, what the
/// failure detector suspects, users' requests, the time) and carries out its actions: the log is
/// made durable before anybody hears of it, workers are started, told, and stopped.
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
    std::string node;  ///< that it was started for
    std::unique_ptr<WorkerProcess> process;
    std::optional<protocol::Hello> hello;
    std::optional<protocol::Done> done;
    bool left = false, stopped = false, told_to_stop = false;
    std::string failure;   ///< what it said before it ended
    bool fatal = false;    ///< and that others would end in the same way
    uint64_t changes = 0;  ///< of its progress page, when it was last looked at
    cluster::ProgressWord progress;
    cluster::Instant progress_since{0};
  };
  /// When a generation began, for the event that says how long it took.
  struct Interruption {
    std::chrono::steady_clock::time_point noticed, announced, decided;
    bool planned = false;
  };

  // local_job.cpp: the operator
  cluster::Instant now() const;
  void begin();
  void event(decltype(cluster::Event::what) what);
  void carry_out(const std::vector<cluster::Action>& actions);
  void note_lost_steps(const cluster::Decision& decision);
  bool persist(const cluster::LogRecord& record);
  void wait_for_something();
  void pass_on_stop();
  void record(const cluster::PublishEvent& event);
  void begin_interruption(const cluster::Membership& membership);
  void record_resumption(const protocol::StepDone& step);
  int training_workers() const;

  // local_job_workers.cpp: the agent
  void listen_for_workers();
  void start_worker(const std::vector<std::string>& avoid_nodes);
  void remember_workers() const;
  void expect_workers_of_before();
  void accept_worker();
  void drop_those_who_did_not_come();
  void read_messages(Worker& worker);
  void handle(Worker& worker, const protocol::Message& message);
  void handle_hello(Worker& worker, const protocol::Hello& hello);
  void handle_step(const protocol::StepDone& step);
  void record_batch(const protocol::StepDone& step);
  void handle_part(const protocol::CheckpointPart& part);
  void handle_failed(Worker& worker, const protocol::Failed& failed);
  void handle_exit(Worker& worker);
  void watch_progress();
  void tell(cluster::WorkerId id, const protocol::Message& message);
  Worker* find(cluster::WorkerId id);
  std::string in_users_words(const std::string& message) const;

  // local_job_requests.cpp: users
  void open_service();
  std::string handle_request(const std::string& method, const std::string& request);
  protocol::Answer answer(const protocol::EventBody& request);
  protocol::Answer answer_scale(const cluster::ScaleRequested& request);
  protocol::Answer answer_drain(const cluster::DrainRequested& request);
  protocol::JobStatus status() const;

  const recipe::Recipe recipe_;
  const LocalJobOptions options_;
  RunJournal& journal_;
  cluster::MembershipState state_;
  std::vector<std::unique_ptr<Worker>> workers_;
  runtime::FileDescriptor listener_;
  std::unique_ptr<OperatorService> service_;
  int started_ = 0;
  bool stopping_ = false;
  /// Workers of an earlier agent that live and have not called yet, by process; until when.
  std::map<pid_t, cluster::WorkerId> expected_;
  std::optional<cluster::Instant> expected_until_;
  std::optional<cluster::Instant> wake_at_;
  std::vector<protocol::CheckpointPart> parts_;
  std::optional<protocol::Done> done_;
  std::optional<cluster::EndJob> end_;
  bool introduced_ = false;
  std::map<std::string, int> same_failures_;  ///< since the last finished step
  std::chrono::steady_clock::time_point last_commit_, event_at_;
  uint64_t last_generation_ = 0;
  /// By generation, of those without a finished step.
  std::map<uint64_t, Interruption> interruptions_;
  cluster::Instant looked_at_{0};  ///< when progress was last looked at
  double loss_ = 0, seconds_per_step_ = 0, learning_rate_ = 0;
  int64_t batch_ = 0;  ///< of the newest step
};

/// What the recipe says, for the operator's state machine.
cluster::MembershipOptions membership_options(const recipe::Recipe& recipe);

}  // namespace craton::control
