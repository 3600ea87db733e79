#include "craton/app/cli/progress_bar.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "craton/base/units.h"

namespace craton::app {

namespace {

size_t terminal_columns() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 80;
}

}  // namespace

ProgressBar::ProgressBar(std::string verb)
    : verb_(std::move(verb)), terminal_(::isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() {
  if (open_) std::fputc('\n', stderr);
}

void ProgressBar::draw(const std::string& line, bool last) {
  if (!terminal_) {
    std::fprintf(stderr, "%s\n", line.c_str());
    return;
  }
  std::fprintf(stderr, "\r%s\033[K%s", line.substr(0, terminal_columns() - 1).c_str(),
               last ? "\n" : "");
  std::fflush(stderr);
  open_ = !last;
}

void ProgressBar::show(const std::string& stage, uint64_t bytes_done, uint64_t bytes_total) {
  const auto now = Clock::now();
  if (stage != stage_) {
    stage_ = stage;
    start_ = shown_at_ = now;
    shown_percent_ = -1;
  }
  const double share =
      bytes_total > 0
          ? std::min(1.0, static_cast<double>(bytes_done) / static_cast<double>(bytes_total))
          : 1;
  const int percent = static_cast<int>(100 * share);
  const bool last = bytes_done >= bytes_total;
  if (last && shown_percent_ == 100) return;
  if (!terminal_ && !last) {
    if (percent / 10 == std::max(shown_percent_, 0) / 10 ||
        now - shown_at_ < std::chrono::seconds(2))
      return;
  }
  shown_percent_ = percent;
  shown_at_ = now;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const double rate = seconds > 0 ? static_cast<double>(bytes_done) / seconds : 0;
  std::string line = fmt::format("{} {:<8} {:>3} % ", verb_, stage, percent);
  if (terminal_) {
    constexpr int kWidth = 24;
    const int filled = static_cast<int>(kWidth * share);
    line += "[" + std::string(static_cast<size_t>(filled), '=') +
            std::string(static_cast<size_t>(kWidth - filled), ' ') + "] ";
  }
  line += fmt::format("{} of {}, {}/s", format_bytes(static_cast<double>(bytes_done)),
                      format_bytes(static_cast<double>(bytes_total)), format_bytes(rate));
  if (last) {
    line += fmt::format(", {}", format_seconds(seconds));
  } else if (rate > 0) {
    line += fmt::format(", {} left",
                        format_seconds((static_cast<double>(bytes_total - bytes_done)) / rate));
  }
  draw(line, last);
}

}  // namespace craton::app
