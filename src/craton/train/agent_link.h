#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "craton/protocol/messages.h"
#include "craton/runtime/message_channel.h"

namespace craton::train {

/// The worker's end of the socket to its agent. A thread of its own listens, so that an unplanned
/// next generation ends what the worker waits for at once, and a planned one or a stop is heard in
/// the middle of a step. When the agent is gone the process ends: nobody would publish what it
/// computes.
class AgentLink {
 public:
  /// `fence` is called on the listening thread when generation `next` has begun without waiting for
  /// a step boundary.
  AgentLink(int socket, std::function<void(Generation next)> fence);
  ~AgentLink();

  void send(const protocol::Message& message);

  /// Blocks for a membership newer than `last`; the newest one if there are several.
  cluster::Membership await_membership(Generation last);
  /// Blocks for the decision of a generation; nothing when a newer membership has come instead.
  std::optional<cluster::Decision> await_decision(Generation generation);

  bool stop_requested() const { return stop_requested_; }
  /// A membership newer than `current` has been announced.
  bool heard_of_next(Generation current) const;

 private:
  void listen();
  void handle(const protocol::Message& message);
  runtime::MessageChannel channel_;
  const std::function<void(Generation)> fence_;
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::optional<cluster::Membership> membership_;
  std::optional<cluster::Decision> decision_;
  std::atomic<bool> stop_requested_{false}, closing_{false};
  std::thread thread_;
};

}  // namespace craton::train
