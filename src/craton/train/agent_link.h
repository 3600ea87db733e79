#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "craton/protocol/messages.h"
#include "craton/runtime/message_channel.h"

namespace craton::train {

struct AgentLinkOptions {
  /// Where the address of the next agent appears, in agent.socket, when the first one is gone.
  std::filesystem::path agent_folder;
  /// How long this process goes on without an agent before it ends.
  std::chrono::milliseconds orphan_time{30000};
  /// Asked for a few times a second: true when this process was told to go (SIGTERM), and has
  /// `grace` to do so.
  std::function<bool()> told_to_go = [] { return false; };
  std::chrono::milliseconds grace{30000};
};

/// The worker's end of the socket to its agent. A thread of its own listens, so that an unplanned
/// next generation ends what the worker waits for at once, and a planned one or a stop is heard in
/// the middle of a step.
///
/// When the agent is gone, training goes on; what would have been said is kept (bounded) and said
/// to the agent that takes over. When none comes within `orphan_time`, or this worker was never a
/// member, the process ends: nobody would publish what it computes.
class AgentLink {
 public:
  /// `fence` is called on the listening thread when generation `next` has begun without waiting for
  /// a step boundary.
  AgentLink(int socket, AgentLinkOptions options, std::function<void(Generation next)> fence);
  ~AgentLink();

  /// The first word of a worker; said again to each further agent, with the newest generation.
  void introduce(const protocol::Hello& hello);
  void took_part(Generation generation);
  void send(const protocol::Message& message);

  /// Blocks for a membership newer than `last`; the newest one if there are several. Nothing when
  /// the worker has to begin anew instead.
  std::optional<cluster::Membership> await_membership(Generation last);
  /// Blocks for the decision of a generation; nothing when a newer membership has come instead.
  std::optional<cluster::Decision> await_decision(Generation generation);

  /// The agent wants this worker to forget all and introduce itself anew; said once.
  bool take_begin_anew();

  bool stop_requested() const { return stop_requested_; }
  /// A membership newer than `current` has been announced.
  bool heard_of_next(Generation current) const;

 private:
  void listen();
  void handle(const protocol::Message& message);
  void tell_if_told_to_go();
  void await_next_agent();
  bool call_next_agent();
  std::shared_ptr<runtime::MessageChannel> channel() const;

  const AgentLinkOptions options_;
  const std::function<void(Generation)> fence_;
  mutable std::mutex mutex_;
  std::shared_ptr<runtime::MessageChannel> channel_;
  std::optional<protocol::Hello> hello_;
  std::deque<std::string> kept_;  // what the next agent must hear, oldest first
  std::condition_variable arrived_;
  std::optional<cluster::Membership> membership_;
  std::optional<cluster::Decision> decision_;
  std::atomic<bool> stop_requested_{false}, closing_{false};
  bool begin_anew_ = false;
  bool told_ = false;
  std::thread thread_;
};

}  // namespace craton::train
