#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "craton/cluster/failure_detector.h"
#include "craton/cluster/membership.h"

/// Events and actions of the operator's state machine, to and from the wire (operator.proto).
namespace craton::protocol {

/// Where the workers of one agent are, for `cluster::find_suspects`.
struct AgentProgress {
  struct Worker {
    cluster::WorkerId worker;
    cluster::ProgressWord word;
    cluster::Duration unchanged{0};

    bool operator==(const Worker&) const = default;
  };
  std::string node;
  std::vector<Worker> workers;

  bool operator==(const AgentProgress&) const = default;
};

using EventBody = decltype(cluster::Event::what);
/// What agents and users send.
using OperatorInput = std::variant<EventBody, AgentProgress>;

/// `now` turns a drain's deadline into the time that is left. Empty for what does not travel:
/// OperatorStarted, PersistRefused, Tick.
std::optional<std::string> encode_event(const OperatorInput& input, cluster::Instant now);
/// kCorrupt when it is none.
OperatorInput decode_event(std::string_view bytes, cluster::Instant now);

/// Empty for what the operator does itself: Persist, WakeAt.
std::optional<std::string> encode_action(const cluster::Action& action);
/// kCorrupt when it is none.
cluster::Action decode_action(std::string_view bytes);

}  // namespace craton::protocol
