#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "craton/runtime/file.h"

namespace craton::runtime {

/// Ends what threads wait for at sockets: for servers with a thread a connection. Once given it
/// stays given. Thread-safe.
class StopSignal {
 public:
  using Timeout = std::optional<std::chrono::milliseconds>;  ///< nullopt: none

  StopSignal();
  void give() const;

  /// Until poll finds one of `events` at `fd`; false when the time is over or the signal is given.
  bool wait(int fd, short events, Timeout timeout = {}) const;
  /// All of `bytes` into a socket that does not block; false when the connection is gone, has not
  /// moved for `timeout`, or the signal is given.
  bool send(int fd, std::span<const std::byte> bytes, Timeout timeout = {}) const;
  /// Appends to `data` what comes next, at least one byte; false as for `send`. `buffer` is of the
  /// caller, to be used again.
  bool receive(int fd, std::span<std::byte> buffer, std::string& data, Timeout timeout = {}) const;

 private:
  FileDescriptor event_;
};

}  // namespace craton::runtime
