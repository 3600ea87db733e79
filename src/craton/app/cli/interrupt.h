#pragma once

#include <atomic>

namespace craton::app {

/// While it lives, SIGINT and SIGTERM set a flag instead of ending the process; a second one ends
/// it. One at a time.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  const std::atomic<bool>& flag() const;
};

}  // namespace craton::app
