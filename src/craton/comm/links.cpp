#include "craton/comm/links.h"

#include <sys/epoll.h>

#include <cerrno>
#include <cstring>

#include "craton/base/error.h"
#include "craton/comm/shared_memory_connection.h"
#include "craton/comm/tcp_connection.h"
#include "craton/runtime/socket.h"

// The callers' side; links_handshake.cpp has what happens on the loop's thread.
namespace craton::comm {

Links::Links(const EndpointOptions& options, std::shared_ptr<runtime::EventLoop> loop,
             std::shared_ptr<LocalSegment> segment)
    : options_(options),
      loop_(std::move(loop)),
      segment_(std::move(segment)),
      landing_(std::make_shared<LandingPool>(options.landing_limit_bytes, UINT64_MAX)),
      staging_(std::make_shared<LandingPool>(options.staging_limit_bytes / 4,
                                             options.staging_limit_bytes)) {}

PeerAddress Links::open() {
  address_.incarnation = options_.incarnation;
  segment_->on_full([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->collect();
  });
  address_.host_id = options_.host_id.empty() ? runtime::host_identity() : options_.host_id;
  const auto watch = [this](Listener& listener) {
    loop_->post([self = shared_from_this(), &listener] {
      listener.watch_id =
          self->loop_->add(listener.socket.get(), EPOLLIN,
                           [self, &listener](uint32_t) { self->accept_all(listener); });
    });
  };
  if (options_.transport != TransportChoice::kTcp) {
    shared_descriptor_ = segment_->memory().read_only_descriptor();
    address_.local_socket = fmt::format("craton-{:016x}", options_.incarnation);
    local_listener_.socket = runtime::listen_local(address_.local_socket);
    watch(local_listener_);
  }
  if (options_.transport != TransportChoice::kSharedMemory) {
    address_.tcp_host =
        options_.advertise_host.empty() ? options_.listen_host : options_.advertise_host;
    tcp_listener_.socket = runtime::listen_tcp(options_.listen_host, address_.tcp_port);
    watch(tcp_listener_);
  }
  return address_;
}

void Links::close() {
  segment_->memory().leave_contents();
  std::map<uint64_t, Link> links;
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
    links.swap(links_);
  }
  for (auto& [incarnation, link] : links) {
    if (link.connection) link.connection->close("this worker's endpoint was closed");
  }
  calls_.clear();
  dialogs_.clear();
  local_listener_.socket.reset();
  tcp_listener_.socket.reset();
  changed_.notify_all();
}

bool Links::uses_shared_memory(const PeerAddress& address) const {
  return local_listener_.socket.valid() && !address.local_socket.empty() &&
         address.host_id == address_.host_id;
}

void Links::request(const PeerAddress& address, std::chrono::milliseconds delay) {
  if (!uses_shared_memory(address) && (!tcp_listener_.socket.valid() || address.tcp_port == 0)) {
    fail(
        ErrorCode::kInvalidArgument,
        "no transport reaches worker {:x} on host {}: shared memory needs one host, TCP an address",
        address.incarnation, address.host_id);
  }
  {
    std::lock_guard lock(mutex_);
    Link& link = links_[address.incarnation];
    if (link.stage == Stage::kCalling || link.stage == Stage::kConnected) return;
    link = {Stage::kCalling, address, nullptr, {}};
  }
  auto start = [self = shared_from_this(), incarnation = address.incarnation] {
    self->call(incarnation);
  };
  if (delay.count() > 0)
    loop_->after(delay, std::move(start));
  else
    loop_->post(std::move(start));
}

Links::Result Links::wait(uint64_t incarnation, Clock::time_point deadline,
                          const std::atomic<bool>& interrupted) {
  std::unique_lock lock(mutex_);
  while (true) {
    if (interrupted.load()) return {Outcome::kInterrupted, nullptr, {}};
    const auto it = links_.find(incarnation);
    if (closed_ || it == links_.end()) return {Outcome::kLost, nullptr, "the endpoint was closed"};
    if (it->second.stage == Stage::kConnected) {
      return {Outcome::kConnected, it->second.connection, {}};
    }
    if (it->second.stage == Stage::kLost) return {Outcome::kLost, nullptr, it->second.why};
    if (Clock::now() >= deadline) return {Outcome::kTimeout, nullptr, {}};
    changed_.wait_until(lock, deadline);
  }
}

void Links::wake() {
  { std::lock_guard lock(mutex_); }
  changed_.notify_all();
}

std::vector<std::shared_ptr<Connection>> Links::connections() const {
  std::vector<std::shared_ptr<Connection>> connections;
  std::lock_guard lock(mutex_);
  for (const auto& [incarnation, link] : links_) {
    if (link.connection) connections.push_back(link.connection);
  }
  return connections;
}

void Links::drop_below(uint64_t floor) {
  {
    std::lock_guard lock(mutex_);
    floor_ = std::max(floor_, floor);
  }
  for (const auto& connection : connections()) connection->drop_below(floor);
}

void Links::wake_connections() {
  for (const auto& connection : connections()) connection->wake();
  wake();
}

void Links::collect() {
  for (const auto& connection : connections()) connection->collect();
}

void Links::forget_lost_except(const Group& group) {
  std::lock_guard lock(mutex_);
  std::erase_if(links_, [&group](const auto& item) {
    if (item.second.stage != Stage::kLost) return false;
    for (const PeerAddress& member : group.members) {
      if (member.incarnation == item.first) return false;
    }
    return true;
  });
}

size_t Links::connected() const {
  std::lock_guard lock(mutex_);
  size_t count = 0;
  for (const auto& [incarnation, link] : links_) count += link.stage == Stage::kConnected;
  return count;
}

}  // namespace craton::comm
