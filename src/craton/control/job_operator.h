#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "craton/cluster/failure_detector.h"
#include "craton/cluster/membership.h"
#include "craton/control/agent.h"
#include "craton/control/operator_service.h"
#include "craton/control/run_journal.h"
#include "craton/protocol/agent_messages.h"
#include "craton/recipe/recipe.h"

namespace craton::control {

struct JobOperatorOptions {
  std::string worker_program;   ///< find_worker_program()
  std::string listen;           ///< where agents of other nodes attach, "0.0.0.0:7077"; empty: all
                                ///< workers are started here
  int64_t restore_step = 0;     ///< the checkpoint to begin with; 0: the initial state
  int64_t restore_samples = 0;  ///< that the steps up to it have used
  bool take_over = false;  ///< goes on with the log and the live workers of an operator that is
                           ///< gone, instead of `restore_step`
  std::function<bool()> stop_requested = [] {
    return false;
  };  ///< true: finish the step, save, end
  std::function<bool()> abandon_requested = [] { return false; };  ///< true: end at once
};

/// Operator of a job. The operator is the state machine of cluster/; this brings it events (what
/// agents say of their workers, what the failure detector suspects, users' requests, the time) and
/// carries out its actions: the log is made durable before anybody hears of it, workers are
/// started, told, and stopped. Agents are in this process (one node), or attach over the network.
/// One thread.
class JobOperator {
 public:
  JobOperator(const recipe::Recipe& recipe, JobOperatorOptions options, RunJournal& journal);
  /// Kills what still runs here.
  ~JobOperator();

  /// Runs the job to its end. Error when it cannot go on, with what the last worker said.
  protocol::Done run();

 private:
  struct Node {
    int slots = 0;
    int64_t agent_pid = 0;
    /// To its agent; empty while none is attached.
    std::function<void(const protocol::AgentCommand&)> send;
    std::shared_ptr<RpcStream> stream;  ///< null: the agent is in this process
    cluster::Instant heard{0};
    bool leaving = false;
  };
  struct Worker {
    int number = 0;
    int64_t pid = 0;
    std::string node;
    std::string agent;         ///< the node whose agent runs it
    cluster::WorkerId before;  ///< who it was to an earlier operator, until it says hello
    std::optional<protocol::Hello> hello;
    std::optional<protocol::Done> done;
    bool left = false, stopped = false, told_to_stop = false;
    std::string failure;  ///< what it said before it ended
    bool fatal = false;   ///< and that others would end in the same way
    cluster::ProgressWord progress;
    cluster::Instant progress_since{0};
  };
  /// When a generation began, for the event that says how long it took.
  struct Interruption {
    std::chrono::steady_clock::time_point noticed, announced, decided;
    bool planned = false;
  };

  // job_operator.cpp: the state machine's events and actions
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

  // job_operator_nodes.cpp: agents, and where workers are
  void open_service();
  void begin_local_agent();
  void listen_to_agents();
  void attach(std::shared_ptr<RpcStream> stream, const protocol::AgentHello& hello);
  void handle_agent(const std::string& node, const protocol::AgentEvent& event);
  void detach(const std::string& node);
  void give_up_silent_nodes();
  void end_agents();
  Worker& add_worker(int number, const std::string& agent);
  void start_worker(const std::vector<std::string>& avoid_nodes);
  void start_waiting_workers();
  void forget_those_who_are_nowhere();
  void watch_progress();

  // job_operator_workers.cpp: what workers say, and their ends
  void handle(Worker& worker, const protocol::Message& message);
  void handle_hello(Worker& worker, const protocol::Hello& hello);
  void handle_left(Worker& worker, const protocol::Left& left);
  void handle_step(const protocol::StepDone& step);
  void record_batch(const protocol::StepDone& step);
  void handle_part(const protocol::CheckpointPart& part);
  void handle_failed(Worker& worker, const protocol::Failed& failed);
  void handle_end(int number, const std::string& how, const std::string& last_words);
  void tell(cluster::WorkerId id, const protocol::Message& message);
  void command(const Worker& worker, const protocol::AgentCommand& command);
  Worker* find(cluster::WorkerId id);
  Worker* find(int number);
  std::string in_users_words(const std::string& message) const;

  // job_operator_requests.cpp: users
  std::string handle_request(const std::string& method, const std::string& request);
  protocol::Answer answer(const protocol::EventBody& request);
  protocol::Answer answer_scale(const cluster::ScaleRequested& request);
  protocol::Answer answer_drain(const cluster::DrainRequested& request);
  protocol::JobStatus status() const;

  const recipe::Recipe recipe_;
  const JobOperatorOptions options_;
  RunJournal& journal_;
  cluster::MembershipState state_;
  std::map<std::string, Node> nodes_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::unique_ptr<Agent> local_;
  std::unique_ptr<OperatorService> service_;
  std::vector<std::shared_ptr<RpcStream>> strangers_;  ///< have not said hello yet
  /// Until when, and away from which nodes: workers to start once a node has room.
  std::vector<std::pair<cluster::Instant, std::vector<std::string>>> waiting_starts_;
  int started_ = 0;
  bool stopping_ = false;
  /// Until when workers of an earlier operator may turn up that no agent has named yet.
  std::optional<cluster::Instant> expected_until_;
  std::optional<cluster::Instant> wake_at_;
  cluster::Instant heartbeat_at_{0};
  std::vector<protocol::CheckpointPart> parts_;
  std::optional<protocol::Done> done_;
  std::optional<cluster::EndJob> end_;
  bool introduced_ = false;
  std::map<std::string, int> same_failures_;  ///< since the last finished step
  std::chrono::steady_clock::time_point last_commit_, event_at_;
  uint64_t last_generation_ = 0;
  /// By generation, of those without a finished step.
  std::map<uint64_t, Interruption> interruptions_;
  std::set<cluster::WorkerId> lost_;
  cluster::Instant looked_at_{0};  ///< when progress was last looked at
  double loss_ = 0, seconds_per_step_ = 0, learning_rate_ = 0;
  int64_t batch_ = 0;  ///< of the newest step
};

/// What the recipe says, for the operator's state machine.
cluster::MembershipOptions membership_options(const recipe::Recipe& recipe);

}  // namespace craton::control
