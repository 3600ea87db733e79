#include <shared_mutex>

#include "craton/base/check.h"
#include "craton/comm/endpoint_state.h"
#include "craton/runtime/progress_page.h"

namespace craton::comm {
namespace {

class GenerationCommunicator : public Communicator {
 public:
  GenerationCommunicator(std::shared_ptr<Endpoint::State> endpoint, Group group,
                         std::shared_ptr<GenerationState> generation,
                         std::vector<std::shared_ptr<Connection>> connections)
      : endpoint_(std::move(endpoint)),
        group_(std::move(group)),
        state_(std::move(generation)),
        connections_(std::move(connections)) {}

  Generation generation() const override { return state_->generation; }
  Rank rank() const override { return group_.self; }
  int world_size() const override { return static_cast<int>(group_.members.size()); }

  std::unique_ptr<PendingSend> send(Rank to, uint64_t operation, Pieces pieces) override {
    const Call call{state_, to, operation};
    return connection(call)->send(call, pieces);
  }

  std::unique_ptr<Message> receive(Rank from, uint64_t operation) override {
    const Call call{state_, from, operation};
    const runtime::ProgressWait wait(operation);
    return connection(call)->receive(call);
  }

  void abort() override { endpoint_->raise_floor(generation().value() + 1); }

  void check() override { Call{state_, group_.self, 0}.check(); }

  void set_timeout(std::chrono::milliseconds timeout) override {
    state_->timeout_ms.store(timeout.count());
  }

  Traffic traffic() const override {
    return {state_->bytes_sent.load(), state_->bytes_received.load(), state_->messages.load()};
  }

 private:
  /// A connection stays the one of this generation, also when the peer is lost: a new process of
  /// the peer is another member of another generation.
  std::shared_ptr<Connection> connection(const Call& call) {
    const auto index = static_cast<size_t>(call.peer.value());
    CRATON_CHECK(call.peer.value() >= 0 && index < connections_.size() && call.peer != group_.self,
                 "rank {} talks to rank {} of {}", group_.self.value(), call.peer.value(),
                 connections_.size());
    call.check();
    {
      std::shared_lock lock(mutex_);
      if (connections_[index]) return connections_[index];
    }
    auto connection = endpoint_->connect(group_.members[index], call);
    std::unique_lock lock(mutex_);
    if (!connections_[index]) connections_[index] = std::move(connection);
    return connections_[index];
  }

  const std::shared_ptr<Endpoint::State> endpoint_;
  const Group group_;
  const std::shared_ptr<GenerationState> state_;
  std::shared_mutex mutex_;
  std::vector<std::shared_ptr<Connection>> connections_;  // by rank; null: not used yet
};

}  // namespace

std::unique_ptr<Communicator> make_communicator(
    std::shared_ptr<Endpoint::State> endpoint, Group group,
    std::shared_ptr<GenerationState> generation,
    std::vector<std::shared_ptr<Connection>> connections) {
  return std::make_unique<GenerationCommunicator>(std::move(endpoint), std::move(group),
                                                  std::move(generation), std::move(connections));
}

}  // namespace craton::comm
