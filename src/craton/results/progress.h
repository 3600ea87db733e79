#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "craton/results/metrics.h"

namespace craton::results {

/// What the bar shows.
struct ProgressState {
  int64_t step = 0, steps = 0;
  double loss = 0;
  double samples_per_second = 0;
  double seconds_left = -1;  ///< below 0: unknown
};

/// One line of at most `width` columns: "[#####.....]  120/600  loss 0.512  85.3 samples/s  2m10s
/// left".
std::string progress_bar(const ProgressState& state, int width);

/// Shows training on a file descriptor: on a terminal one line that is drawn again and again, below
/// the lines that must stay (validation, skipped steps, notes); elsewhere a plain line each
/// `log_every` steps. Not thread-safe.
class Progress {
 public:
  /// Asks `fd` whether it is a terminal and how wide.
  Progress(int fd, int64_t steps, int64_t log_every);
  /// For tests: as told.
  Progress(int fd, int64_t steps, int64_t log_every, bool terminal, int width);

  void on_step(const StepMetrics& metrics);
  /// A line that stays, such as "saved runs/demo/checkpoints/step-00000100".
  void note(const std::string& line);
  /// Leaves the last state of the bar on the screen. Also done by the destructor.
  void finish();
  ~Progress() { finish(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

 private:
  void put(const std::string& text);
  void draw();
  int fd_;
  int64_t log_every_;
  bool terminal_;
  int width_;
  ProgressState state_;
  double seconds_per_step_ = 0;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point last_draw_{};
};

}  // namespace craton::results
