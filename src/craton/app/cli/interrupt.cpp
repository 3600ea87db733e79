#include "craton/app/cli/interrupt.h"

#include <csignal>

namespace craton::app {

namespace {
std::atomic<bool> interrupted{false};

void on_signal(int number) {
  if (interrupted.exchange(true)) {
    std::signal(number, SIG_DFL);
    std::raise(number);
  }
}
}  // namespace

Interrupt::Interrupt() {
  interrupted = false;
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
}

Interrupt::~Interrupt() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

const std::atomic<bool>& Interrupt::flag() const { return interrupted; }

}  // namespace craton::app
