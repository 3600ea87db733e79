#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "craton/cluster/membership.h"
#include "craton/cluster/messages.h"

/// What the agent and its workers say to each other over their local socket, besides the plain
/// structs of cluster/messages.h.
namespace craton::protocol {

/// How others reach a worker (comm::PeerAddress); `cluster::WorkerInfo::address` carries it as
/// text.
struct WorkerAddress {
  uint64_t incarnation = 0;
  std::string host_id, local_socket, tcp_host;
  uint16_t tcp_port = 0;
};
std::string to_text(const WorkerAddress& address);
/// kCorrupt when it is none.
WorkerAddress parse_address(std::string_view text);

/// Worker: data are open, the model is built, here is how to reach me. Said again to an agent that
/// takes over from one that is gone.
struct Hello {
  cluster::WorkerInfo worker;
  int64_t parameters = 0;
  int64_t tokens_per_sample = 0;
  double training_flops_per_sample = 0;
  double peak_flops = 0;    ///< of one worker, measured
  std::string data;         ///< one line about volumes and windows
  uint64_t generation = 0;  ///< newest one that it was a member of; 0: none
  int64_t pid = 0;
  int32_t number = 0;        ///< as its first agent counted
  int32_t progress_fd = -1;  ///< of its progress page, in its own process
};

/// Agent: finish the step, save, end.
struct Stop {
  std::string why;
};

/// A worker, for a committed step: the numbers that all workers agree on, and its own times.
struct StepDone {
  uint64_t generation = 0;
  int64_t step = 0;
  bool applied = true;
  double loss = 0, gradient_norm = 0, learning_rate = 0;
  std::optional<double> validation_loss;
  double seconds = 0, compute_seconds = 0, reduce_seconds = 0, gather_seconds = 0,
         data_wait_seconds = 0;
  uint64_t resident_bytes = 0;
  int64_t batch = 0, samples_seen = 0;  ///< samples of this step; of all steps up to it
  double communication_seconds = 0;     ///< hidden behind compute or not
  uint64_t sent_bytes = 0;
};

struct SavedParameter {
  std::string name;
  std::vector<int64_t> shape;
  std::string dtype = "F32";
  bool trained = true;  ///< false: frozen, or a buffer
};

/// A worker's part of the checkpoint of `step` is on disk.
struct CheckpointPart {
  int64_t step = 0, updates = 0;
  uint64_t generation = 0;
  int32_t rank = 0, world_size = 0;
  std::vector<SavedParameter> parameters;  ///< all of the model's, in its order
  int64_t samples_seen = 0;
};

/// A worker: all steps are done; it stays until it is stopped.
struct Done {
  int64_t step = 0;
  std::string state_sha256;
  bool stopped = false;  ///< ended early because it was asked to
};

/// A worker that was to leave, or is left over, has left after the first commit of this generation.
struct Left {
  uint64_t generation = 0;
  bool rests = false;  ///< its process stays, and introduces itself as a new worker next
};

/// A worker cannot go on; `message` is for the user.
struct Failed {
  std::string message;
  bool ends_job = false;  ///< a replacement would fail in the same way
};

/// Agent: forget the job's state and all connections, and introduce yourself as a new worker.
struct BeginAnew {};

/// A worker was told to go (SIGTERM): it wants to be drained within the time that it has.
struct Leaving {
  int64_t grace_milliseconds = 0;
};

using Message = std::variant<Hello, cluster::Membership, cluster::Report, cluster::Decision, Stop,
                             StepDone, CheckpointPart, Done, Left, Failed, Leaving, BeginAnew>;

/// Protobuf (craton.proto).
std::string encode(const Message& message);
/// kCorrupt when it is none.
Message decode(std::string_view bytes);

/// The operator's log record, for its file.
std::string encode_log(const cluster::LogRecord& record);
cluster::LogRecord decode_log(std::string_view bytes);

}  // namespace craton::protocol
