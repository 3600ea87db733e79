#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "craton/protocol/agent_messages.h"

namespace craton::control {

struct RemoteAgentOptions {
  std::string operator_address;  ///< "host:port", as the operator listens for agents
  std::string node;              ///< a name of its own
  int slots = 0;     ///< so many workers at most; 0: processors divided by threads per worker
  std::string host;  ///< numeric address at which workers of other nodes reach this one; empty:
                     ///< that from which the operator is reached
  /// How long an operator that was never there is waited for.
  std::chrono::milliseconds patience{600000};
  /// True when this node has to go, and has `grace` to do so.
  std::function<bool()> told_to_go = [] { return false; };
  std::chrono::milliseconds grace{60000};
  /// One line for whoever watches: attached, lost, ...
  std::function<void(const std::string&)> say = [](const std::string&) {};
};

/// An agent on a node of its own, until its operator ends it. When the operator is silent for the
/// recipe's lease, or its connection breaks, the workers are let go: they go on, and this agent or
/// another one takes them in again once it reaches an operator. Error when none comes within the
/// recipe's `recovery.orphan_seconds`, after which no worker lives.
protocol::EndAgent run_remote_agent(const RemoteAgentOptions& options);

/// Numeric address of this machine from which `address` ("host:port") is reached. Error kNotFound
/// when its host has no address.
std::string address_towards(const std::string& address);

}  // namespace craton::control
