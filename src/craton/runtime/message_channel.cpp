#include "craton/runtime/message_channel.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "craton/base/error.h"
#include "craton/runtime/socket.h"

namespace craton::runtime {
namespace {

std::optional<ucred> peer_of(int fd) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return std::nullopt;
  return peer;
}

/// Sockets of socket.h do not block; channels do.
std::unique_ptr<MessageChannel> channel_of_this_user(FileDescriptor socket) {
  const auto peer = peer_of(socket.get());
  if (!peer || peer->uid != ::getuid()) return nullptr;
  const int flags = ::fcntl(socket.get(), F_GETFL);
  if (flags < 0 || ::fcntl(socket.get(), F_SETFL, flags & ~O_NONBLOCK) != 0) return nullptr;
  return std::make_unique<MessageChannel>(std::move(socket));
}

}  // namespace

std::unique_ptr<MessageChannel> MessageChannel::call(const std::string& name) {
  int error = 0;
  FileDescriptor socket = connect_local(name, error);
  if (!socket.valid()) return nullptr;
  pollfd entry{socket.get(), POLLOUT, 0};
  if (::poll(&entry, 1, 1000) != 1 || take_socket_error(socket.get()) != 0) return nullptr;
  return channel_of_this_user(std::move(socket));
}

std::unique_ptr<MessageChannel> MessageChannel::accept(int listener) {
  FileDescriptor socket = accept_connection(listener);
  return socket.valid() ? channel_of_this_user(std::move(socket)) : nullptr;
}

int64_t MessageChannel::peer_pid() const {
  const auto peer = peer_of(socket_.get());
  return peer ? peer->pid : 0;
}

std::pair<std::unique_ptr<MessageChannel>, FileDescriptor> MessageChannel::pair() {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
    fail_errno("cannot make a socket pair", errno);
  if (::fcntl(fds[1], F_SETFD, 0) != 0) fail_errno("cannot hand a socket to a child", errno);
  return {std::make_unique<MessageChannel>(FileDescriptor(fds[0])), FileDescriptor(fds[1])};
}

void MessageChannel::send(std::string_view message) {
  if (message.size() > kMaxMessage)
    fail(ErrorCode::kInternal, "a message of {} bytes is over the limit", message.size());
  const auto length = static_cast<uint32_t>(message.size());
  std::string frame(reinterpret_cast<const char*>(&length), sizeof(length));
  frame.append(message);
  std::lock_guard lock(send_mutex_);
  for (size_t sent = 0; sent < frame.size();) {
    const ssize_t n = ::send(socket_.get(), frame.data() + sent, frame.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      throw Error(ErrorCode::kPeerLost, "the other side of a control connection is gone",
                  Reaction::kAbort);
    sent += static_cast<size_t>(n);
  }
}

std::optional<std::string> MessageChannel::take() {
  uint32_t length;
  if (buffer_.size() < sizeof(length)) return std::nullopt;
  std::memcpy(&length, buffer_.data(), sizeof(length));
  if (length > kMaxMessage) fail(ErrorCode::kCorrupt, "a control message claims {} bytes", length);
  if (buffer_.size() < sizeof(length) + length) return std::nullopt;
  std::string message = buffer_.substr(sizeof(length), length);
  buffer_.erase(0, sizeof(length) + length);
  return message;
}

std::optional<std::string> MessageChannel::receive(std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (true) {
    if (auto message = take()) return message;
    int wait = -1;
    if (timeout.count() >= 0) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
          deadline - std::chrono::steady_clock::now());
      wait = static_cast<int>(std::max<int64_t>(0, left.count()));
    }
    pollfd entry{socket_.get(), POLLIN, 0};
    const int ready = ::poll(&entry, 1, wait);
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) return std::nullopt;
    char bytes[65536];
    const ssize_t n = ::recv(socket_.get(), bytes, sizeof(bytes), 0);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n <= 0)
      throw Error(ErrorCode::kPeerLost, "the other side of a control connection is gone",
                  Reaction::kAbort);
    buffer_.append(bytes, static_cast<size_t>(n));
  }
}

}  // namespace craton::runtime
