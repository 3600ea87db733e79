#include "craton/train/agent_link.h"

#include <unistd.h>

#include "craton/base/error.h"
#include "craton/base/log.h"
#include "craton/runtime/file.h"

namespace craton::train {
namespace {

constexpr size_t kMostKept = 4096;
constexpr std::chrono::milliseconds kPoll{100};

/// What an agent publishes; all else belongs to a generation and is asked for anew.
bool must_be_heard(const protocol::Message& message) {
  return std::holds_alternative<protocol::StepDone>(message) ||
         std::holds_alternative<protocol::CheckpointPart>(message) ||
         std::holds_alternative<protocol::Done>(message);
}

}  // namespace

AgentLink::AgentLink(int socket, AgentLinkOptions options, std::function<void(Generation)> fence)
    : options_(std::move(options)),
      fence_(std::move(fence)),
      channel_(std::make_shared<runtime::MessageChannel>(runtime::FileDescriptor(socket))),
      thread_([this] { listen(); }) {}

AgentLink::~AgentLink() {
  closing_ = true;
  thread_.join();
}

std::shared_ptr<runtime::MessageChannel> AgentLink::channel() const {
  std::lock_guard lock(mutex_);
  return channel_;
}

void AgentLink::introduce(const protocol::Hello& hello) {
  {
    std::lock_guard lock(mutex_);
    hello_ = hello;
  }
  send(hello);
}

void AgentLink::took_part(Generation generation) {
  std::lock_guard lock(mutex_);
  hello_->generation = generation.value();
}

void AgentLink::send(const protocol::Message& message) {
  const std::string bytes = protocol::encode(message);
  std::shared_ptr<runtime::MessageChannel> channel;
  {
    std::lock_guard lock(mutex_);
    if (must_be_heard(message)) {
      if (kept_.size() == kMostKept) kept_.pop_front();
      kept_.push_back(bytes);
    }
    channel = channel_;
  }
  try {
    channel->send(bytes);
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kPeerLost) throw;  // the listening thread looks for the next agent
  }
}

std::optional<cluster::Membership> AgentLink::await_membership(Generation last) {
  std::unique_lock lock(mutex_);
  arrived_.wait(lock,
                [&] { return begin_anew_ || (membership_ && membership_->generation > last); });
  if (begin_anew_) return std::nullopt;
  return membership_;
}

bool AgentLink::take_begin_anew() {
  std::lock_guard lock(mutex_);
  return std::exchange(begin_anew_, false);
}

std::optional<cluster::Decision> AgentLink::await_decision(Generation generation) {
  std::unique_lock lock(mutex_);
  arrived_.wait(lock, [&] {
    return begin_anew_ || membership_->generation > generation ||
           (decision_ && decision_->generation == generation);
  });
  if (begin_anew_ || membership_->generation > generation) return std::nullopt;
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
  if (std::holds_alternative<protocol::BeginAnew>(message)) {
    std::lock_guard lock(mutex_);
    begin_anew_ = true;
    kept_.clear();
    // Ends what the worker waits for: no generation up to the newest one goes on.
    if (membership_) fence_(membership_->generation.next());
  }
  if (const auto* decision = std::get_if<cluster::Decision>(&message)) {
    std::lock_guard lock(mutex_);
    decision_ = *decision;
  }
  arrived_.notify_all();
}

void AgentLink::tell_if_told_to_go() {
  if (told_ || !options_.told_to_go()) return;
  told_ = true;
  send(protocol::Leaving{options_.grace.count()});
}

bool AgentLink::call_next_agent() {
  std::string name;
  try {
    name = runtime::read_text(options_.agent_folder / "agent.socket");
  } catch (const Error&) {
    return false;
  }
  std::shared_ptr<runtime::MessageChannel> next = runtime::MessageChannel::call(name);
  if (!next) return false;
  // Under the lock, so that nothing new overtakes what was kept.
  std::lock_guard lock(mutex_);
  try {
    next->send(protocol::encode(*hello_));
    for (const std::string& bytes : kept_) next->send(bytes);
  } catch (const Error&) {
    return false;
  }
  channel_ = std::move(next);
  told_ = false;
  return true;
}

void AgentLink::await_next_agent() {
  bool member = false;
  {
    std::lock_guard lock(mutex_);
    member = hello_ && hello_->generation > 0;
  }
  if (member) {
    log_warning(
        "the agent is gone: training goes on for up to {} s while another one may take over",
        options_.orphan_time.count() / 1000.0);
    const auto deadline = std::chrono::steady_clock::now() + options_.orphan_time;
    while (!closing_ && std::chrono::steady_clock::now() < deadline) {
      if (call_next_agent()) return log_info("another agent has taken over");
      std::this_thread::sleep_for(kPoll);
    }
  }
  if (closing_) return;
  log_warning("the agent is gone: ending");
  ::_exit(3);
}

void AgentLink::listen() {
  while (!closing_) {
    tell_if_told_to_go();
    try {
      if (const auto bytes = channel()->receive(kPoll)) handle(protocol::decode(*bytes));
    } catch (const Error& e) {
      if (e.code() == ErrorCode::kPeerLost) {
        await_next_agent();
      } else {
        log_error("{}: ending", e.what());
        ::_exit(3);
      }
    }
  }
}

}  // namespace craton::train
