#include "craton/runtime/socket.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "craton/base/error.h"

namespace craton::runtime {
namespace {

constexpr int kKind = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
constexpr int kBacklog = 4096;

socklen_t local_address(const std::string& name, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  if (name.size() + 1 > sizeof(address.sun_path)) {
    fail(ErrorCode::kInvalidArgument, "the local socket name '{}' is too long", name);
  }
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

/// Numeric hosts never ask a name server, so that a connect cannot hang in a look-up.
struct Resolved {
  sockaddr_storage address{};
  socklen_t size = 0;
};

bool resolve(const std::string& host, uint16_t port, bool listening, Resolved& out) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (listening ? AI_PASSIVE : 0);
  const std::string service = std::to_string(port);
  if (::getaddrinfo(host.empty() ? nullptr : host.c_str(), service.c_str(), &hints, &found) != 0) {
    return false;
  }
  std::memcpy(&out.address, found->ai_addr, found->ai_addrlen);
  out.size = found->ai_addrlen;
  ::freeaddrinfo(found);
  return true;
}

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

FileDescriptor listen_local(const std::string& name) {
  sockaddr_un address;
  const socklen_t size = local_address(name, address);
  FileDescriptor fd(::socket(AF_UNIX, kKind, 0));
  if (!fd.valid()) fail_errno("cannot create a local socket", errno);
  if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(fd.get(), kBacklog) != 0) {
    fail_errno(fmt::format("cannot listen on local socket {}", name), errno);
  }
  return fd;
}

FileDescriptor listen_tcp(const std::string& host, uint16_t& port) {
  Resolved resolved;
  if (!resolve(host, port, true, resolved)) {
    fail(ErrorCode::kInvalidArgument, "cannot listen on '{}': no address of this host", host);
  }
  FileDescriptor fd(::socket(resolved.address.ss_family, kKind, 0));
  if (!fd.valid()) fail_errno("cannot create a TCP socket", errno);
  const int on = 1;
  if (port != 0) ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&resolved.address), resolved.size) != 0 ||
      ::listen(fd.get(), kBacklog) != 0) {
    fail_errno(fmt::format("cannot listen on {}:{}", host, port), errno);
  }
  sockaddr_storage bound{};
  socklen_t size = sizeof(bound);
  ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&bound), &size);
  port = ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&bound)->sin6_port
                                           : reinterpret_cast<sockaddr_in*>(&bound)->sin_port);
  return fd;
}

FileDescriptor connect_local(const std::string& name, int& error) {
  sockaddr_un address;
  const socklen_t size = local_address(name, address);
  FileDescriptor fd(::socket(AF_UNIX, kKind, 0));
  error = fd.valid() ? 0 : errno;
  if (fd.valid() && ::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 &&
      errno != EINPROGRESS) {
    error = errno;
    fd.reset();
  }
  return fd;
}

FileDescriptor connect_tcp(const std::string& host, uint16_t port, int& error) {
  Resolved resolved;
  error = EHOSTUNREACH;
  if (!resolve(host, port, false, resolved)) return {};
  FileDescriptor fd(::socket(resolved.address.ss_family, kKind, 0));
  error = fd.valid() ? 0 : errno;
  if (fd.valid() &&
      ::connect(fd.get(), reinterpret_cast<sockaddr*>(&resolved.address), resolved.size) != 0 &&
      errno != EINPROGRESS) {
    error = errno;
    fd.reset();
  }
  return fd;
}

int take_socket_error(int fd) {
  int error = 0;
  socklen_t size = sizeof(error);
  return ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

FileDescriptor accept_connection(int listener) {
  return FileDescriptor(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

void tune_tcp(int fd) {
  const auto set = [fd](int level, int option, int value) {
    ::setsockopt(fd, level, option, &value, sizeof(value));
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 4);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 2);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 10'000);
}

std::optional<size_t> send_some(int fd, std::span<const std::byte> bytes, int descriptor) {
  iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (descriptor >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
  }
  const ssize_t n = ::sendmsg(fd, &message, MSG_NOSIGNAL);
  if (n >= 0) return static_cast<size_t>(n);
  return would_block(errno) ? std::optional<size_t>(0) : std::nullopt;
}

std::optional<size_t> receive_some(int fd, std::span<std::byte> bytes, FileDescriptor* descriptor) {
  iovec piece{bytes.data(), bytes.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (descriptor != nullptr) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
  }
  const ssize_t n = ::recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
  if (n < 0) return would_block(errno) ? std::optional<size_t>(0) : std::nullopt;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    int received = -1;
    std::memcpy(&received, CMSG_DATA(header), sizeof(int));
    *descriptor = FileDescriptor(received);
  }
  if (n == 0 && !bytes.empty()) return std::nullopt;
  return static_cast<size_t>(n);
}

std::optional<size_t> send_pieces(int fd, std::span<const iovec> pieces) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(pieces.data());
  message.msg_iovlen = pieces.size();
  const ssize_t n = ::sendmsg(fd, &message, MSG_NOSIGNAL);
  if (n >= 0) return static_cast<size_t>(n);
  return would_block(errno) ? std::optional<size_t>(0) : std::nullopt;
}

std::optional<size_t> receive_pieces(int fd, std::span<const iovec> pieces) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(pieces.data());
  message.msg_iovlen = pieces.size();
  const ssize_t n = ::recvmsg(fd, &message, 0);
  if (n > 0) return static_cast<size_t>(n);
  return n < 0 && would_block(errno) ? std::optional<size_t>(0) : std::nullopt;
}

std::string host_identity() {
  std::string boot = "unknown";
  try {
    boot = read_text("/proc/sys/kernel/random/boot_id");
  } catch (const Error&) {
    char name[256] = {};
    ::gethostname(name, sizeof(name) - 1);
    boot = name;
  }
  while (!boot.empty() && boot.back() == '\n') boot.pop_back();
  struct stat info {};
  ::stat("/proc/self/ns/net", &info);
  return boot + "/" + std::to_string(info.st_ino);
}

}  // namespace craton::runtime
