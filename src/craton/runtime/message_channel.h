#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "craton/runtime/file.h"

namespace craton::runtime {

/// Whole messages over a connected stream socket: a 4-byte length in front of each. `send` is
/// thread-safe; one thread receives.
class MessageChannel {
 public:
  /// A larger message is refused on both sides: 64 MiB.
  static constexpr size_t kMaxMessage = 64u << 20;

  explicit MessageChannel(FileDescriptor socket) : socket_(std::move(socket)) {}

  /// Two connected ends; the second is meant for a child process (not closed on exec).
  static std::pair<std::unique_ptr<MessageChannel>, FileDescriptor> pair();

  /// A connection to the abstract local socket `name` of another process of this user; null when
  /// nobody listens there.
  static std::unique_ptr<MessageChannel> call(const std::string& name);
  /// The next caller of a socket of `listen_local` that belongs to this user; null when there is
  /// none.
  static std::unique_ptr<MessageChannel> accept(int listener);

  int fd() const { return socket_.get(); }
  /// Of the process at the other end when the connection was made; 0: unknown.
  int64_t peer_pid() const;

  /// Error kPeerLost when the other side is gone.
  void send(std::string_view message);

  /// The next message; nullopt when none is complete within `timeout` (negative: wait for ever).
  /// Error kPeerLost at the end of the stream.
  std::optional<std::string> receive(std::chrono::milliseconds timeout);

 private:
  std::optional<std::string> take();
  FileDescriptor socket_;
  std::string buffer_;
  std::mutex send_mutex_;
};

}  // namespace craton::runtime
