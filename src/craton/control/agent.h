#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "craton/control/worker_process.h"
#include "craton/protocol/agent_messages.h"
#include "craton/recipe/recipe.h"
#include "craton/runtime/file.h"

namespace craton::control {

struct AgentOptions {
  std::string node;            ///< how the operator calls this host
  int slots = 0;               ///< so many workers at most; 0: as many as are wanted
  std::string worker_program;  ///< find_worker_program()
  /// Its recipe.yaml is what workers read; their logs, the list of them, and where they find the
  /// next agent when this one is gone, are beside it.
  std::filesystem::path folder;
  /// Numeric address at which other nodes reach this one; empty: all workers are on this machine.
  std::string host;
  std::chrono::milliseconds progress_interval{50};
};

/// The worker processes of one node: starts, watches and ends them, and passes on what they say.
/// Decides nothing. One thread; never blocks.
class Agent {
 public:
  /// `say` is called by `begin`, `carry_out` and `handle_ready`.
  Agent(const recipe::Recipe& recipe, AgentOptions options,
        std::function<void(protocol::AgentEvent)> say);
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;
  /// Kills what still runs.
  ~Agent();

  /// Says hello. With `take_over` it waits for the workers that an earlier agent has left in the
  /// folder: those that do not call within the recipe's lease are ended.
  void begin(bool take_over);
  void carry_out(const protocol::AgentCommand& command);
  /// Readable when something waits for `handle_ready`, which also looks at the time; to be called
  /// at least every `progress_interval`.
  int fd() const { return poll_.get(); }
  void handle_ready();
  /// No operator: workers live on, and look for the next agent in the folder.
  void let_go();

 private:
  using Clock = std::chrono::steady_clock;
  struct Worker {
    std::unique_ptr<WorkerProcess> process;
    std::string node;
    cluster::WorkerId id;
    uint64_t changes = 0;  ///< of its progress page, when it was last looked at
    cluster::ProgressWord progress;
    Clock::time_point progress_since;
  };

  void listen_for_workers();
  void start(const protocol::StartWorker& command);
  void tell(int number, const protocol::Message& message);
  void watch(int number, const Worker& worker);
  void accept_worker();
  void adopt(const protocol::Hello& hello, std::unique_ptr<runtime::MessageChannel> channel);
  void read_messages(int number);
  void handle_end(int number);
  void end_those_who_did_not_call();
  void look_at_progress();
  void write_list() const;
  std::string log_path(int number) const;

  const recipe::Recipe recipe_;
  const AgentOptions options_;
  const std::function<void(protocol::AgentEvent)> say_;
  runtime::FileDescriptor poll_, listener_;
  std::map<int, Worker> workers_;  // by number
  Clock::time_point calls_until_, looked_at_;
};

}  // namespace craton::control
