#pragma once

#include <fmt/format.h>

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "craton/testing/simulated_cluster.h"

/// The world of one schedule; internal to simulated_cluster.cpp (workers and network),
/// simulated_operator.cpp (the operator and its log) and simulated_faults.cpp.
namespace craton::testing {

using namespace cluster;  // NOLINT: the words of the protocol
using std::chrono::milliseconds;

struct Stop {};

struct Process {
  SimulatedWorker worker;
  std::deque<std::variant<Announce, SendDecision, Stop>> from_operator;
  std::optional<Instant> paused_until, suspect_at;
  bool was_paused = false;
};

class Simulation : public WorkerWorld {
 public:
  explicit Simulation(const SimulationOptions& options)
      : options_(options), random_(mix(options.seed, 77)) {
    job_.training = {options.seed, options.shape.shards};
    job_.shape = options.shape;
    job_.keeps_sums = options.keeps_sums;
    job_.steps = options.steps;
    job_.mutation = options.mutation;
    golden_ = {job_.training.start()};
    checkpoints_[0] = golden_[0].values;
    membership_options_.shape = options.shape;
    membership_options_.elastic = {.min_workers = options.increment,
                                   .max_workers = options.max_workers,
                                   .increment = options.increment};
    membership_options_.elastic.failure_backoff = milliseconds(10);
    membership_options_.elastic.failure_backoff_max = milliseconds(200);
    membership_options_.elastic.failures_without_progress = 0;
    membership_options_.start_workers = options.workers;
    membership_options_.spares = options.spares;
    membership_options_.start_timeout = milliseconds(20000);
    membership_options_.report_timeout = milliseconds(3000);
    membership_options_.boundary_timeout = milliseconds(20000);
    membership_options_.drain_timeout = milliseconds(5000);
    membership_options_.lease = milliseconds(mutated(Mutation::kNoLease) ? 0 : 600);
    faults_left_ = options.faults;
    changes_left_ = options.changes;
  }

  SimulationResult run() {
    start_operator();
    while (!ended_ && !result_.violation) {
      ++result_.events;
      now_ += milliseconds(1);
      maybe_disturb();
      if (!advance_world()) violate("nothing can happen any more");
      if (operator_)
        result_.largest_state =
            std::max(result_.largest_state, operator_->workers.size() + operator_->reports.size());
      if (faults_left_ == 0 && changes_left_ == 0) {
        if (++calm_events_ > 60000) violate("no progress although the faults have stopped");
      } else if (result_.events > 400000) {
        violate("no end in sight");
      }
    }
    if (ended_ && !result_.violation) check_end();
    return std::move(result_);
  }

  // WorkerWorld
  void send(const WorkerInfo& to, PeerMessage message) override {
    network_.push_back({to.id, std::move(message)});
  }
  void tell_operator(WorkerId from, Event event) override {
    to_operator_[from].push_back(std::move(event));
  }
  uint64_t random(uint64_t bound) override {
    random_ = random_ * 6364136223846793005u + 1442695040888963407u;
    return (mix(random_, 1) >> 11) % bound;
  }
  void violate(const std::string& what) override {
    if (!result_.violation)
      result_.violation = fmt::format("seed {}, event {}: {}", options_.seed, result_.events, what);
    trace("VIOLATION {}", what);
  }
  void begun(WorkerStep step) override;
  void checkpoint(int64_t step, const ToyTraining::Values& values) override {
    checkpoints_[step] = values;
  }
  const ToyTraining::Values& checkpoint_of(int64_t step) override { return checkpoints_.at(step); }
  void left(WorkerId worker, Role role) override { leaving_now_[worker] = role; }
  void committed(WorkerId worker, const Decision& decision, SlotTag slot, double norm) override;
  void applied(WorkerId worker, int shard, SlotTag slot, uint64_t value) override;

 private:
  bool mutated(Mutation m) const { return options_.mutation == m; }
  template <typename... Args>
  void trace(fmt::format_string<Args...> format, Args&&... args) {
    if (options_.trace)
      fmt::print("{:6} {}\n", result_.events, fmt::format(format, std::forward<Args>(args)...));
  }

  // the world
  bool advance_world();
  bool wait_for_something();
  void deliver_message();
  void hear(Process& process);
  void start_process();
  void start_process_on(const std::string& node);
  void begin_anew(WorkerId id);
  void end_process(WorkerId id, ExitKind kind);
  void reap();
  void take_event(WorkerId source);

  // the operator
  void start_operator();
  void feed(MembershipState& op, decltype(Event::what) what);
  void carry_out(MembershipState& op, const std::vector<Action>& actions);
  bool persist(MembershipState& op, const Persist& action);
  void note_decision(const Decision& decision);
  size_t lost_domains() const;
  void check_rollback(const Decision& decision);
  void check_loss(const Decision& decision);
  void forget_steps_after(int64_t step);
  void crash_operator(std::vector<Action> unfinished);
  void wake_zombie_operator();
  void forge_reports();

  // disturbances
  void maybe_disturb();
  void inject_fault();
  void request_change();
  Process* random_process(bool members_only);

  void note_size(const Decision& decision, Step step);
  void check_end();

  const SimulationOptions options_;
  SimulatedJob job_;
  std::vector<ToyTraining::State> golden_;  ///< by step: an undisturbed run of steps of these sizes
  uint64_t random_;
  Instant now_{1000};
  SimulationResult result_;
  bool ended_ = false;
  int faults_left_, changes_left_, calm_events_ = 0;

  MembershipOptions membership_options_;
  std::optional<MembershipState> operator_, zombie_;
  std::optional<Instant> wake_at_, restart_at_, zombie_at_;
  std::vector<Action> zombie_actions_;
  LogRecord stored_;
  std::map<WorkerId, std::deque<Event>> to_operator_;

  uint64_t next_id_ = 1;
  std::map<WorkerId, std::unique_ptr<Process>> processes_;
  std::map<WorkerId, ExitKind> gone_;
  std::map<WorkerId, Role> leaving_now_;
  std::vector<std::pair<WorkerId, PeerMessage>> network_;
  std::vector<std::pair<int, WorkerId>> candidates_;

  std::map<int64_t, ToyTraining::Values> checkpoints_;
  std::vector<Generation> history_;  ///< by step - 1: the attempt that was committed
  std::map<int64_t, int> begun_;     ///< by step: how many micro-batches it was begun with
  Generation
      history_from_;  ///< zombies of generations before the last loss live in another history
  Membership committed_members_;  ///< of the newest commit
  size_t committed_copies_ = 0;
  Generation committed_in_;
  Decision last_decision_;
  std::vector<Member> decided_before_;  ///< members of the newest decided generation
  bool started_ = false;
};

}  // namespace craton::testing
