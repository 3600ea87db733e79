#pragma once

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <list>
#include <string>
#include <thread>
#include <vector>

#include "craton/runtime/file.h"
#include "craton/runtime/socket.h"

namespace craton::tests {

/// A TCP proxy on 127.0.0.1 that hands on everything after a delay in each direction: a server that
/// is `2 * one_way` further away. The rate stays what it is. One thread; ends with its owner.
class DelayProxy {
 public:
  DelayProxy(uint16_t to_port, std::chrono::milliseconds one_way)
      : to_port_(to_port),
        delay_(one_way),
        listener_(runtime::listen_tcp("127.0.0.1", port_)),
        stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    thread_ = std::thread([this] { run(); });
  }
  DelayProxy(const DelayProxy&) = delete;
  DelayProxy& operator=(const DelayProxy&) = delete;
  ~DelayProxy() {
    const uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(stop_.get(), &one, sizeof(one));
    thread_.join();
  }
  uint16_t port() const { return port_; }
  /// While it is cut nothing passes, and nobody is told: a network that has come apart.
  void cut(bool now) { cut_ = now; }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr size_t kMostQueued = 16 << 20;
  static constexpr int kLookAgainMs = 10, kIdleMs = 1000;

  struct Parcel {
    Clock::time_point due;
    std::vector<std::byte> bytes;
    size_t sent = 0;
  };
  /// One direction of a connection.
  struct Direction {
    std::deque<Parcel> queue;
    size_t queued = 0;
    bool ended = false;  ///< the source has closed
  };
  struct Connection {
    runtime::FileDescriptor client, server;
    Direction up, down;
    bool broken = false;
  };

  /// Takes what has arrived at `from`.
  void receive(int from, Direction& way) {
    std::vector<std::byte> buffer(256 << 10);
    while (!way.ended && way.queued < kMostQueued) {
      const auto n = runtime::receive_some(from, buffer);
      if (!n) {
        way.ended = true;
        return;
      }
      if (*n == 0) return;
      way.queue.push_back(
          {Clock::now() + delay_, {buffer.begin(), buffer.begin() + static_cast<ptrdiff_t>(*n)}});
      way.queued += *n;
    }
  }

  /// Hands on what is due; false when `to` is gone.
  static bool send(int to, Direction& way) {
    while (!way.queue.empty() && way.queue.front().due <= Clock::now()) {
      Parcel& parcel = way.queue.front();
      const auto n = runtime::send_some(to, std::span(parcel.bytes).subspan(parcel.sent));
      if (!n) return false;
      if (*n == 0) return true;
      parcel.sent += *n;
      way.queued -= *n;
      if (parcel.sent == parcel.bytes.size()) way.queue.pop_front();
    }
    return true;
  }

  static short wants(const Direction& in, const Direction& out) {
    short events = 0;
    if (!in.ended && in.queued < kMostQueued) events |= POLLIN;
    if (!out.queue.empty() && out.queue.front().due <= Clock::now()) events |= POLLOUT;
    return events;
  }

  int timeout_ms() const {
    auto next = Clock::time_point::max();
    for (const Connection& c : connections_)
      for (const Direction* way : {&c.up, &c.down})
        if (!way->queue.empty()) next = std::min(next, way->queue.front().due);
    if (next == Clock::time_point::max()) return kIdleMs;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(next - Clock::now());
    return static_cast<int>(std::max<int64_t>(left.count() + 1, 0));
  }

  void run() {
    for (;;) {
      if (cut_) {
        pollfd stop{stop_.get(), POLLIN, 0};
        if (::poll(&stop, 1, kLookAgainMs) != 0) return;
        continue;
      }
      std::vector<pollfd> fds = {{stop_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
      for (const Connection& c : connections_) {
        fds.push_back({c.client.get(), wants(c.up, c.down), 0});
        fds.push_back({c.server.get(), wants(c.down, c.up), 0});
      }
      ::poll(fds.data(), fds.size(), timeout_ms());
      if (fds[0].revents != 0) return;
      if (cut_) continue;
      for (Connection& c : connections_) {
        receive(c.client.get(), c.up);
        receive(c.server.get(), c.down);
        c.broken = !send(c.server.get(), c.up) || !send(c.client.get(), c.down) ||
                   (c.up.ended && c.up.queue.empty()) || (c.down.ended && c.down.queue.empty());
      }
      connections_.remove_if([](const Connection& c) { return c.broken; });
      for (;;) {
        runtime::FileDescriptor client = runtime::accept_connection(listener_.get());
        if (!client.valid()) break;
        int error = 0;
        Connection& c = connections_.emplace_back();
        c.client = std::move(client);
        c.server = runtime::connect_tcp("127.0.0.1", to_port_, error);
        pollfd connecting{c.server.get(), POLLOUT, 0};
        if (!c.server.valid() || ::poll(&connecting, 1, 1000) != 1 ||
            runtime::take_socket_error(c.server.get()) != 0) {
          connections_.pop_back();
          continue;
        }
        runtime::tune_tcp(c.client.get());
        runtime::tune_tcp(c.server.get());
      }
    }
  }

  uint16_t to_port_;
  std::chrono::milliseconds delay_;
  uint16_t port_ = 0;
  std::atomic<bool> cut_{false};
  runtime::FileDescriptor listener_, stop_;
  std::list<Connection> connections_;
  std::thread thread_;
};

}  // namespace craton::tests
