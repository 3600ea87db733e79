#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "craton/cluster/failure_detector.h"
#include "craton/protocol/messages.h"

/// What an agent and the operator of its job tell each other (operator.proto, Attach). The agent
/// knows processes and passes on what their workers say; what it means is the operator's business.
namespace craton::protocol {

/// A worker process that lives on a node since before its agent came.
struct LiveWorker {
  int32_t number = 0;
  int64_t pid = 0;
  cluster::WorkerId id;

  bool operator==(const LiveWorker&) const = default;
};

// Agent to operator.

/// First of all, also after the stream broke.
struct AgentHello {
  std::string node;
  int32_t slots = 0;  ///< so many workers run here at most; 0: as many as are wanted
  int64_t pid = 0;
  std::vector<LiveWorker> live;  ///< each of them will be heard of: `WorkerSaid` or `WorkerEnded`
};
struct WorkerStarted {
  int32_t number = 0;
  int64_t pid = 0;
};
struct WorkerSaid {
  int32_t number = 0;
  std::string node;
  int64_t pid = 0;
  Message message;
};
/// Its process is gone, or could not be started.
struct WorkerEnded {
  int32_t number = 0;
  std::string how;         ///< "was killed by signal 9 (Killed)"
  std::string last_words;  ///< of its log, in one line
};
/// Where the workers are; also the sign that the agent lives.
struct AgentProgress {
  struct Worker {
    int32_t number = 0;
    cluster::ProgressWord word;
    cluster::Duration unchanged{0};

    bool operator==(const Worker&) const = default;
  };
  std::vector<Worker> workers;
};
/// The node has to go (SIGTERM, a scheduler's notice), and has this time.
struct NodeLeaving {
  int64_t grace_milliseconds = 0;
};
using AgentEvent =
    std::variant<AgentHello, WorkerStarted, WorkerSaid, WorkerEnded, AgentProgress, NodeLeaving>;

// Operator to agent.

/// First of all: what this agent works for.
struct JobOffer {
  std::string name;
  std::string recipe;  ///< resolved, YAML
  std::string folder;  ///< in which the operator works; what the recipe names is relative to it
  /// In operator.json of the run's folder while this operator lives: who reads it there sees the
  /// operator's file system.
  std::string operator_id;
};
struct StartWorker {
  int32_t number = 0;
  std::string node;
};
struct TellWorker {
  int32_t number = 0;
  Message message;
};
struct KillWorker {
  int32_t number = 0;
};
struct Heartbeat {};
/// The job is over, or this agent is not wanted: it ends, and its workers with it.
struct EndAgent {
  bool failed = false;
  std::string reason;
};
using AgentCommand =
    std::variant<JobOffer, StartWorker, TellWorker, KillWorker, Heartbeat, EndAgent>;

inline constexpr std::string_view kAttachMethod = "/craton.wire.Operator/Attach";

/// kCorrupt when the bytes are none.
std::string encode(const AgentEvent& event);
AgentEvent decode_agent_event(std::string_view bytes);
std::string encode(const AgentCommand& command);
AgentCommand decode_agent_command(std::string_view bytes);

}  // namespace craton::protocol
