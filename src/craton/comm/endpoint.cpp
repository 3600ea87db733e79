#include <unistd.h>

#include <algorithm>
#include <random>

#include "craton/base/check.h"
#include "craton/base/error.h"
#include "craton/comm/endpoint_state.h"

namespace craton::comm {
namespace {

EndpointOptions with_incarnation(EndpointOptions options) {
  while (options.incarnation == 0) {
    std::random_device random;
    options.incarnation = (uint64_t{random()} << 32) | random();
  }
  return options;
}

/// Lower incarnations call at once; the others give them this long before they call themselves.
constexpr std::chrono::milliseconds kGiveWay{30};

}  // namespace

Endpoint::State::State(EndpointOptions given)
    : options(with_incarnation(std::move(given))),
      segment(std::make_shared<LocalSegment>(options.incarnation, options.staging_limit_bytes)),
      loop(std::make_shared<runtime::EventLoop>()),
      links(std::make_shared<Links>(options, loop, segment)),
      address(links->open()) {}

Buffer Endpoint::State::allocate(size_t bytes) {
  auto block = segment->memory().allocate(bytes);
  Buffer buffer;
  buffer.data_ = block->data();
  buffer.size_ = bytes;
  buffer.kind_ =
      options.transport == TransportChoice::kTcp ? MemoryKind::kHost : MemoryKind::kShared;
  buffer.owner_ = std::move(block);
  return buffer;
}

std::shared_ptr<GenerationState> Endpoint::State::begin_generation(const Group& group) {
  const uint64_t generation = group.generation.value();
  const auto self = static_cast<size_t>(group.self.value());
  if (group.self.value() < 0 || self >= group.members.size() ||
      group.members[self].incarnation != address.incarnation) {
    fail(ErrorCode::kInvalidArgument, "rank {} of a group of {} is not this worker",
         group.self.value(), group.members.size());
  }
  {
    std::lock_guard lock(mutex_);
    if ((joined_any_ && generation <= last_joined_) || generation < floor_) {
      throw Error(ErrorCode::kGenerationEnded,
                  fmt::format("generation {} is not newer than {}", generation,
                              std::max(last_joined_, floor_)),
                  Reaction::kReconfigure);
    }
    joined_any_ = true;
    last_joined_ = generation;
  }
  raise_floor(generation);
  auto state = std::make_shared<GenerationState>(group.generation);
  std::lock_guard lock(mutex_);
  if (floor_ > generation) state->ended.store(true);  // fenced off a moment ago
  std::erase_if(live_, [](const auto& old) { return old.expired(); });
  live_.push_back(state);
  return state;
}

std::vector<std::shared_ptr<Connection>> Endpoint::State::connect_all(
    const Group& group, const std::shared_ptr<GenerationState>& generation) {
  std::vector<std::shared_ptr<Connection>> connections(group.members.size());
  links->forget_lost_except(group);
  if (static_cast<int>(group.members.size()) > options.connect_all_up_to) return connections;
  for (const PeerAddress& member : group.members) {
    if (member.incarnation == address.incarnation) continue;
    links->request(
        member, address.incarnation < member.incarnation ? std::chrono::milliseconds(0) : kGiveWay);
  }
  for (size_t rank = 0; rank < group.members.size(); ++rank) {
    if (group.members[rank].incarnation == address.incarnation) continue;
    connections[rank] =
        connect(group.members[rank], {generation, Rank(static_cast<int32_t>(rank)), 0});
  }
  return connections;
}

std::shared_ptr<Connection> Endpoint::State::connect(const PeerAddress& member, const Call& call) {
  links->request(member, std::chrono::milliseconds(0));
  auto result =
      links->wait(member.incarnation, Clock::now() + options.connect_timeout, call.state->ended);
  switch (result.outcome) {
    case Links::Outcome::kConnected:
      return std::move(result.connection);
    case Links::Outcome::kLost:
      call.throw_lost(result.why);
    case Links::Outcome::kInterrupted:
      call.throw_ended("this worker left the generation");
    case Links::Outcome::kTimeout:
      break;
  }
  throw Error(ErrorCode::kTimeout,
              fmt::format("no connection within {} ms", options.connect_timeout.count()),
              Reaction::kReconfigure)
      .with("peer rank", std::to_string(call.peer.value()))
      .with("generation", std::to_string(call.generation()));
}

void Endpoint::State::raise_floor(uint64_t next) {
  std::vector<std::shared_ptr<GenerationState>> ended;
  {
    std::lock_guard lock(mutex_);
    if (next <= floor_) return;
    floor_ = next;
    for (const auto& weak : live_) {
      auto state = weak.lock();
      if (state && state->generation.value() < next) ended.push_back(std::move(state));
    }
  }
  // In this order: peers can see that bytes may change, and queued sends hold no piece any more,
  // before a thread of ours learns that it may change them.
  auto& floor = segment->header().floor;
  uint64_t seen = floor.load();
  while (seen < next && !floor.compare_exchange_weak(seen, next)) {
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);
  links->drop_below(next);
  for (const auto& state : ended) state->ended.store(true);
  links->wake_connections();
}

void Endpoint::State::shut_down() {
  loop->stop();
  links->close();
}

Endpoint::Endpoint(const EndpointOptions& options) : state_(std::make_shared<State>(options)) {}

Endpoint::~Endpoint() { state_->shut_down(); }

const PeerAddress& Endpoint::address() const { return state_->address; }

Buffer Endpoint::allocate(size_t bytes) { return state_->allocate(bytes); }

std::unique_ptr<Communicator> Endpoint::join(const Group& group) {
  auto generation = state_->begin_generation(group);
  auto connections = state_->connect_all(group, generation);
  return make_communicator(state_, group, std::move(generation), std::move(connections));
}

void Endpoint::fence(Generation next) { state_->raise_floor(next.value()); }

}  // namespace craton::comm
