#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace craton::app {

/// Progress of a long command on stderr: a bar that rewrites its line on a terminal; otherwise a
/// plain line every ten percent, at most one in two seconds (and the last one always). One thread
/// at a time.
class ProgressBar {
 public:
  explicit ProgressBar(std::string verb);
  /// Ends the bar's line, so that what follows starts on its own.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// Shows "VERB STAGE  42 % [====    ] 1.2 GiB of 2.9 GiB, 310 MiB/s, 5.6 s left". A new stage
  /// restarts the clock.
  void show(const std::string& stage, uint64_t bytes_done, uint64_t bytes_total);

 private:
  using Clock = std::chrono::steady_clock;
  void draw(const std::string& line, bool last);
  std::string verb_, stage_;
  bool terminal_;
  bool open_ = false;
  int shown_percent_ = -1;
  Clock::time_point start_, shown_at_;
};

}  // namespace craton::app
