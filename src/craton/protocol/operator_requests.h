#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "craton/cluster/failure_detector.h"
#include "craton/cluster/membership.h"

/// What the command line asks of a job's operator, and what it answers (operator.proto).
namespace craton::protocol {

using EventBody = decltype(cluster::Event::what);

/// The operator's word on a user's request; `text` is for the user.
struct Answer {
  bool accepted = false;
  std::string text;

  bool operator==(const Answer&) const = default;
};

/// A job as its operator sees it at one moment.
struct JobStatus {
  struct Worker {
    cluster::WorkerId id;
    int number = 0;  ///< of its log, worker-NUMBER.log
    int rank = -1;   ///< of the newest generation; -1: not a member
    std::string node;
    int64_t pid = 0;
    std::string state;  ///< "trains", "leaves", "spare", "starts", "fenced"
    cluster::ProgressWord progress;
    cluster::Duration unchanged{0};

    bool operator==(const Worker&) const = default;
  };
  std::string name, strategy;
  cluster::JobPhase phase = cluster::JobPhase::kStarting;
  uint64_t generation = 0;
  int64_t step = 0, steps = 0, checkpoint = 0;
  int requested = 0, min_workers = 0, max_workers = 0, spares = 0;
  double loss = 0, seconds_per_step = 0, elapsed_seconds = 0;
  int64_t batch = 0;  ///< samples of the newest step
  double learning_rate = 0;
  int64_t pid = 0;  ///< of the operator
  std::vector<Worker> workers;

  bool operator==(const JobStatus&) const = default;
};

/// Methods of the operator's service that answer with one message, as gRPC names them.
inline constexpr std::string_view kScaleMethod = "/craton.wire.Operator/Scale";
inline constexpr std::string_view kDrainMethod = "/craton.wire.Operator/Drain";
inline constexpr std::string_view kUndrainMethod = "/craton.wire.Operator/Undrain";
inline constexpr std::string_view kStopMethod = "/craton.wire.Operator/Stop";
inline constexpr std::string_view kStatusMethod = "/craton.wire.Operator/Status";

/// The body of a request to the method that is named for the event: Scale, Drain, Undrain, Stop.
std::string encode_request(const EventBody& event, cluster::Instant now);
/// kCorrupt when the bytes are none; kUnsupported for any other method.
EventBody decode_request(std::string_view method, std::string_view bytes, cluster::Instant now);
std::string encode_answer(const Answer& answer);
Answer decode_answer(std::string_view bytes);
std::string encode_status(const JobStatus& status);
JobStatus decode_status(std::string_view bytes);

}  // namespace craton::protocol
