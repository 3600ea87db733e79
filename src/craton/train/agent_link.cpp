#include "craton/train/agent_link.h"

#include <unistd.h>

#include "craton/base/error.h"
#include "craton/base/log.h"

namespace craton::train {

AgentLink::AgentLink(int socket, std::function<void(Generation)> fence)
    : channel_(runtime::FileDescriptor(socket)),
      fence_(std::move(fence)),
      thread_([this] { listen(); }) {}

AgentLink::~AgentLink() {
  closing_ = true;
  thread_.join();
}

void AgentLink::send(const protocol::Message& message) { channel_.send(protocol::encode(message)); }

cluster::Membership AgentLink::await_membership(Generation last) {
  std::unique_lock lock(mutex_);
  arrived_.wait(lock, [&] { return membership_ && membership_->generation > last; });
  return *membership_;
}

std::optional<cluster::Decision> AgentLink::await_decision(Generation generation) {
  std::unique_lock lock(mutex_);
  arrived_.wait(lock, [&] {
    return membership_->generation > generation ||
           (decision_ && decision_->generation == generation);
  });
  if (membership_->generation > generation) return std::nullopt;
  return decision_;
}

bool AgentLink::heard_of_next(Generation current) const {
  std::lock_guard lock(mutex_);
  return membership_ && membership_->generation > current;
}

void AgentLink::handle(const protocol::Message& message) {
  if (std::holds_alternative<protocol::Stop>(message)) stop_requested_ = true;
  if (const auto* membership = std::get_if<cluster::Membership>(&message)) {
    {
      std::lock_guard lock(mutex_);
      if (membership_ && membership_->generation >= membership->generation) return;
      membership_ = *membership;
    }
    if (!membership->planned) fence_(membership->generation);
  }
  if (const auto* decision = std::get_if<cluster::Decision>(&message)) {
    std::lock_guard lock(mutex_);
    decision_ = *decision;
  }
  arrived_.notify_all();
}

void AgentLink::listen() {
  try {
    while (!closing_) {
      if (const auto bytes = channel_.receive(std::chrono::milliseconds(100)))
        handle(protocol::decode(*bytes));
    }
  } catch (const Error& e) {
    if (closing_) return;
    log_warning("the agent is gone ({}): ending", e.what());
    ::_exit(3);
  }
}

}  // namespace craton::train
