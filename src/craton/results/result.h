#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace craton::results {

/// A run in a few numbers. The names in result.json are those of the comments and do not change;
/// others may be added.
struct Result {
  std::string name;
  int64_t steps = 0;                      ///< `steps`: the last one done
  double train_loss = 0;                  ///< `train_loss`: of the last step
  std::optional<double> validation_loss;  ///< `val_loss`: the last one, null when there was none
  std::string state_sha256;               ///< `state_sha256`
  bool stopped = false;                   ///< `stopped`: ended early on request
  int64_t skipped_steps = 0;              ///< `skipped_steps`: not finite, nothing changed
  int64_t lost_steps =
      0;  ///< `lost_steps`: done once and done again after going back to a checkpoint
  int64_t failures = 0;         ///< `failures`: workers that were lost
  double downtime_seconds = 0;  ///< `downtime_seconds`: in which no step made progress
  double goodput = 1;      ///< `goodput`: share of the run's time spent in steps that counted, 0..1
  int64_t workers = 1;     ///< `workers`: at the end
  std::string strategy;    ///< `strategy`
  int64_t parameters = 0;  ///< `parameters`
  int64_t resumed_from_step = 0;  ///< `resumed_from_step`
  double seconds = 0;             ///< `seconds`: of the run
  double training_seconds = 0;    ///< `training_seconds`: inside steps
  double samples_per_second = 0;  ///< `samples_per_second`: mean over the run's steps
  double data_wait_share = 0;     ///< `data_wait_share`: of the time inside steps
  std::string recipe_digest;      ///< `recipe_digest`
  std::string started, finished;  ///< `started`, `finished`: UTC, "2026-01-31T12:00:00Z"
};

std::string result_json(const Result& result);
void write_result(const std::filesystem::path& path, const Result& result);

/// Now, as in Result::started.
std::string utc_now();

}  // namespace craton::results
