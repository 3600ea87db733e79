#include "craton/results/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "craton/base/units.h"

namespace craton::results {
namespace {

constexpr int kDefaultWidth = 100;
constexpr auto kRedrawInterval = std::chrono::milliseconds(100);
/// Weight of the newest step in the running mean of the time per step.
constexpr double kNewest = 0.1;
constexpr const char* kClearLine = "\r\x1b[K";

int terminal_width(int fd) {
  winsize size{};
  return ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kDefaultWidth;
}

}  // namespace

std::string progress_bar(const ProgressState& state, int width) {
  std::string text = fmt::format("  {}/{}  loss {:.4f}  {} samples/s", state.step, state.steps,
                                 state.loss, format_count(state.samples_per_second));
  if (state.seconds_left >= 0) text += fmt::format("  {} left", format_seconds(state.seconds_left));
  const int room = std::clamp(width - static_cast<int>(text.size()) - 3, 0, 50);
  if (room >= 5) {
    const double done =
        state.steps > 0 ? static_cast<double>(state.step) / static_cast<double>(state.steps) : 0;
    const int filled = static_cast<int>(std::clamp(done, 0.0, 1.0) * room);
    text = fmt::format("[{}{}]{}", std::string(static_cast<size_t>(filled), '#'),
                       std::string(static_cast<size_t>(room - filled), '.'), text);
  } else {
    text = text.substr(2);
  }
  return text.substr(0, static_cast<size_t>(std::max(0, width - 1)));
}

Progress::Progress(int fd, int64_t steps, int64_t log_every)
    : Progress(fd, steps, log_every, ::isatty(fd) == 1, terminal_width(fd)) {}

Progress::Progress(int fd, int64_t steps, int64_t log_every, bool terminal, int width)
    : fd_(fd), log_every_(std::max<int64_t>(1, log_every)), terminal_(terminal), width_(width) {
  state_.steps = steps;
}

void Progress::on_step(const StepMetrics& m) {
  state_.step = m.step;
  state_.loss = m.loss;
  state_.samples_per_second = m.samples_per_second;
  seconds_per_step_ =
      seconds_per_step_ == 0 ? m.seconds : (1 - kNewest) * seconds_per_step_ + kNewest * m.seconds;
  state_.seconds_left = seconds_per_step_ * static_cast<double>(state_.steps - m.step);
  const bool last = m.step >= state_.steps;
  const bool stays = m.validation_loss.has_value() || !m.applied || last;
  if (!terminal_) {
    if (stays || m.step == 1 || m.step % log_every_ == 0) put(console_line(m, state_.steps) + "\n");
    return;
  }
  if (stays) return note(console_line(m, state_.steps));
  if (std::chrono::steady_clock::now() - last_draw_ >= kRedrawInterval) draw();
}

void Progress::note(const std::string& line) {
  if (!terminal_) return put(line + "\n");
  put(kClearLine + line + "\n");
  drawn_ = false;
  if (state_.step > 0 && state_.step < state_.steps) draw();
}

void Progress::draw() {
  last_draw_ = std::chrono::steady_clock::now();
  put(kClearLine + progress_bar(state_, width_));
  drawn_ = true;
}

void Progress::finish() {
  if (drawn_) put("\n");
  drawn_ = false;
}

void Progress::put(const std::string& text) {
  // A closed console must not stop training, so errors are dropped here.
  for (size_t done = 0; done < text.size();) {
    const ssize_t n = ::write(fd_, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    done += static_cast<size_t>(n);
  }
}

}  // namespace craton::results
