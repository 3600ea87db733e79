#include "craton/runtime/stop_signal.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>

#include "craton/base/error.h"
#include "craton/runtime/socket.h"

namespace craton::runtime {

StopSignal::StopSignal() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!event_.valid()) fail_errno("cannot make an event", errno);
}

void StopSignal::give() const {
  const uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(event_.get(), &one, sizeof(one));
}

bool StopSignal::wait(int fd, short events, Timeout timeout) const {
  using Clock = std::chrono::steady_clock;
  pollfd fds[2] = {{fd, events, 0}, {event_.get(), POLLIN, 0}};
  const auto start = Clock::now();
  for (;;) {
    int left = -1;
    if (timeout) {
      const auto ms =
          (*timeout - std::chrono::floor<std::chrono::milliseconds>(Clock::now() - start)).count();
      if (ms <= 0) return false;
      left = static_cast<int>(std::min<int64_t>(ms, std::numeric_limits<int>::max()));
    }
    const int ready = ::poll(fds, 2, left);
    if (ready < 0) continue;  // by a signal
    if (fds[1].revents != 0) return false;
    if (fds[0].revents != 0) return true;
  }
}

bool StopSignal::send(int fd, std::span<const std::byte> bytes, Timeout timeout) const {
  while (!bytes.empty()) {
    const auto n = send_some(fd, bytes);
    if (!n) return false;
    bytes = bytes.subspan(*n);
    if (*n == 0 && !wait(fd, POLLOUT, timeout)) return false;
  }
  return true;
}

bool StopSignal::receive(int fd, std::span<std::byte> buffer, std::string& data,
                         Timeout timeout) const {
  while (wait(fd, POLLIN, timeout)) {
    const auto n = receive_some(fd, buffer);
    if (!n) return false;
    if (*n == 0) continue;
    data.append(reinterpret_cast<const char*>(buffer.data()), *n);
    return true;
  }
  return false;
}

}  // namespace craton::runtime
