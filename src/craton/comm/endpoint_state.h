#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "craton/comm/links.h"

namespace craton::comm {

/// Shared by an endpoint and its communicators.
class Endpoint::State : public std::enable_shared_from_this<Endpoint::State> {
 public:
  explicit State(EndpointOptions options);

  Buffer allocate(size_t bytes);
  std::shared_ptr<GenerationState> begin_generation(const Group& group);
  /// By rank; null for this worker, and in large groups for those who are connected when first
  /// used.
  std::vector<std::shared_ptr<Connection>> connect_all(
      const Group& group, const std::shared_ptr<GenerationState>& generation);
  /// Waits until the member is connected; the errors are those of a call.
  std::shared_ptr<Connection> connect(const PeerAddress& member, const Call& call);
  /// Generations below `next` are over.
  void raise_floor(uint64_t next);
  void shut_down();

  const EndpointOptions options;
  const std::shared_ptr<LocalSegment> segment;
  const std::shared_ptr<runtime::EventLoop> loop;
  const std::shared_ptr<Links> links;
  const PeerAddress address;

 private:
  std::mutex mutex_;  // membership: who joins and what ends
  uint64_t last_joined_ = 0, floor_ = 0;
  bool joined_any_ = false;
  std::vector<std::weak_ptr<GenerationState>> live_;
};

std::unique_ptr<Communicator> make_communicator(
    std::shared_ptr<Endpoint::State> endpoint, Group group,
    std::shared_ptr<GenerationState> generation,
    std::vector<std::shared_ptr<Connection>> connections);

}  // namespace craton::comm
