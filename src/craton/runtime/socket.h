#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "craton/runtime/file.h"

namespace craton::runtime {

/// All sockets are non-blocking, closed on exec, and never raise SIGPIPE.

/// A stream socket in the abstract unix namespace: no file, gone with its process.
FileDescriptor listen_local(const std::string& name);

/// `port` 0: picked, and written back. `host` is a numeric address, "" for all interfaces.
FileDescriptor listen_tcp(const std::string& host, uint16_t& port);

/// Starts a connection; it is ready, or has failed, once the socket turns writable. An empty
/// descriptor with `error` set when the start itself fails: ECONNREFUSED (nobody there), EAGAIN
/// (local backlog full: try later).
FileDescriptor connect_local(const std::string& name, int& error);
FileDescriptor connect_tcp(const std::string& host, uint16_t port, int& error);

/// The outcome of a connect: 0 or an errno.
int take_socket_error(int fd);

/// The next waiting connection, or an empty descriptor when there is none.
FileDescriptor accept_connection(int listener);

/// Small messages at once, dead hosts noticed within some ten seconds.
void tune_tcp(int fd);

/// Bytes taken or delivered; 0 when the call would block; nullopt when the connection is gone (for
/// receives: closed by the other side, or reset).
std::optional<size_t> send_some(int fd, std::span<const std::byte> bytes, int descriptor = -1);
std::optional<size_t> send_pieces(int fd, std::span<const iovec> pieces);
std::optional<size_t> receive_pieces(int fd, std::span<const iovec> pieces);
std::optional<size_t> receive_some(int fd, std::span<std::byte> bytes,
                                   FileDescriptor* descriptor = nullptr);

/// Names the network namespace and boot of this host; equal names can talk by abstract unix
/// sockets.
std::string host_identity();

}  // namespace craton::runtime
