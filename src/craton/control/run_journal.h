#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "craton/protocol/messages.h"
#include "craton/recipe/recipe.h"
#include "craton/results/metrics.h"
#include "craton/results/progress.h"
#include "craton/results/report.h"
#include "craton/results/tensorboard.h"

namespace craton::control {

/// What a job publishes while it runs and when it ends: console, metrics.jsonl, TensorBoard events,
/// checkpoints, result.json and report.html in the run's folder. It hears of committed steps only,
/// and takes each step once, whichever worker reports it.
class RunJournal {
 public:
  /// `first_step`: the step that the run goes on from; later lines of an earlier run are dropped.
  RunJournal(const recipe::Recipe& recipe, int64_t first_step);

  void on_start(const protocol::Hello& hello, int workers);
  void on_step(const protocol::StepDone& step, int workers);
  /// The steps after `step` are computed again, perhaps with other batches: in `generation`, if
  /// that has not shown any yet.
  void go_back(int64_t step, uint64_t generation);
  /// All parts are on disk: makes the checkpoint whole.
  void on_checkpoint(const std::vector<protocol::CheckpointPart>& parts);
  /// Something happened to the job; shown on the console and in the report's timeline.
  void on_event(results::RunEvent::Kind kind, int64_t step, int workers, const std::string& text,
                bool show = true);

  /// Writes result.json and report.html and returns what is in the former.
  results::Result finish(const protocol::Done& done);

  double elapsed() const;
  int64_t last_step() const { return last_step_; }
  void add_downtime(double seconds) { result_.downtime_seconds += seconds; }
  void add_failure() { ++result_.failures; }
  void add_lost_steps(int64_t steps) { result_.lost_steps += steps; }

 private:
  void write_report();
  std::string windows_of_a_step() const;

  const recipe::Recipe recipe_;
  const std::string started_;
  const std::chrono::steady_clock::time_point start_;
  int64_t last_step_;
  results::JobConstants job_;
  results::MetricsFile metrics_file_;
  results::EventFile events_file_;
  results::Progress progress_;
  std::vector<results::StepMetrics> metrics_;
  std::vector<results::RunEvent> events_;
  results::Result result_;
  std::string data_;
  double step_seconds_ = 0, data_wait_seconds_ = 0;
  int64_t samples_ = 0;  // of the run's steps
};

}  // namespace craton::control
