#pragma once

#include <array>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "craton/comm/connection.h"
#include "craton/comm/handshake.h"
#include "craton/comm/landing_pool.h"
#include "craton/comm/local_segment.h"
#include "craton/runtime/event_loop.h"
#include "craton/runtime/file.h"

namespace craton::comm {

class SharedMemoryConnection;

/// The connections of one endpoint, one for each incarnation of a peer. Either side may call; when
/// both do at once, the call of the lower incarnation stays. Everything but `request`, `find`,
/// `wait`, and the walks over all connections happens on the loop's thread.
class Links : public std::enable_shared_from_this<Links> {
 public:
  Links(const EndpointOptions& options, std::shared_ptr<runtime::EventLoop> loop,
        std::shared_ptr<LocalSegment> segment);

  /// Listens, and fills in the address that others need.
  PeerAddress open();
  void close();

  /// Asks for a connection unless there is one or one is under way; returns at once.
  /// Error kInvalidArgument when no transport reaches the address.
  void request(const PeerAddress& address, std::chrono::milliseconds delay);

  enum class Outcome { kConnected, kLost, kTimeout, kInterrupted };
  struct Result {
    Outcome outcome;
    std::shared_ptr<Connection> connection;
    std::string why;
  };
  /// Until the requested connection stands or cannot; `interrupted` is looked at after each `wake`.
  Result wait(uint64_t incarnation, Clock::time_point deadline,
              const std::atomic<bool>& interrupted);
  void wake();

  /// What of the past is dropped, in connections there are and those to come.
  void drop_below(uint64_t floor);
  void wake_connections();
  void collect();
  /// Forgets lost peers other than these, so that membership may change for ever in bounded memory.
  void forget_lost_except(const Group& group);
  size_t connected() const;

 private:
  enum class Stage { kIdle, kCalling, kConnected, kLost };
  struct Link {
    Stage stage = Stage::kIdle;
    PeerAddress address;
    std::shared_ptr<Connection> connection;
    std::string why;
  };
  /// A socket on which the handshake is not over.
  struct Dialog {
    runtime::FileDescriptor socket;
    uint64_t watch_id = 0;
    uint64_t peer = 0;  // 0: a caller that has not said
    bool local = false;
    bool calling = false;
    bool said_hello = false;
    std::array<std::byte, sizeof(Hello)> input;
    size_t filled = 0;
    runtime::FileDescriptor segment;  // of the peer
    std::shared_ptr<SharedMemoryConnection> shared;
  };
  using DialogPtr = std::shared_ptr<Dialog>;
  struct Listener {
    runtime::FileDescriptor socket;
    bool local;
    uint64_t watch_id = 0;
  };

  std::vector<std::shared_ptr<Connection>> connections() const;
  bool uses_shared_memory(const PeerAddress& address) const;
  void accept_all(Listener& listener);
  void call(uint64_t incarnation);
  void begin_dialog(const DialogPtr& dialog, uint32_t events);
  void end_dialog(const DialogPtr& dialog);
  void on_dialog(const DialogPtr& dialog, uint32_t events);
  bool say(const DialogPtr& dialog, HelloKind kind, uint64_t to);
  bool hear(const DialogPtr& dialog);
  void on_hello(const DialogPtr& dialog, const Hello& hello);
  void on_reply(const DialogPtr& dialog, const Hello& reply);
  void establish(const DialogPtr& dialog, uint64_t log_head);
  void lose(uint64_t incarnation, const std::string& why);
  void lose_connection(uint64_t incarnation, const Connection* connection, const std::string& why);
  void watch_peer_process(const DialogPtr& dialog, std::shared_ptr<Connection> connection);

  const EndpointOptions options_;
  const std::shared_ptr<runtime::EventLoop> loop_;
  const std::shared_ptr<LocalSegment> segment_;
  const std::shared_ptr<LandingPool> landing_, staging_;
  PeerAddress address_;
  Listener local_listener_{{}, true}, tcp_listener_{{}, false};
  runtime::FileDescriptor shared_descriptor_;
  std::map<uint64_t, DialogPtr> calls_;   // loop's thread; by incarnation
  std::map<Dialog*, DialogPtr> dialogs_;  // loop's thread

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<uint64_t, Link> links_;
  uint64_t floor_ = 0;
  bool closed_ = false;
};

}  // namespace craton::comm
