#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "craton/runtime/file.h"

namespace craton::results {

/// What does not change during a run and turns seconds into rates.
struct JobConstants {
  int64_t steps = 0;
  int64_t tokens_per_sample = 0;
  double training_flops_per_sample = 0;  ///< forward and backward
  double peak_flops_per_worker = 0;      ///< measured; 0: unknown
};

/// A committed step. Times are those of one worker.
struct StepMetrics {
  int64_t step = 0;
  uint64_t generation = 0;
  int64_t workers = 1;
  double loss = 0;
  std::optional<double> validation_loss;
  double gradient_norm = 0;
  double learning_rate = 0;
  int64_t batch = 0, samples_seen = 0;  ///< samples of this step; of all steps up to it
  bool applied = true;                  ///< false: not finite, so nothing was changed on any worker
  int64_t skipped_steps = 0;            ///< so far
  double seconds = 0;
  double compute_seconds = 0, reduce_seconds = 0, gather_seconds = 0, data_wait_seconds = 0;
  double communication_seconds = 0;  ///< hidden behind compute or not
  uint64_t sent_bytes = 0;           ///< by one worker
  uint64_t memory_bytes = 0;         ///< resident, largest worker
  double elapsed_seconds = 0;        ///< since the run started
  double time = 0;                   ///< seconds since 1970

  // Filled in by derive_rates.
  double samples_per_second = 0, tokens_per_second = 0, flops_per_second = 0;
  double peak_share = 0;       ///< flops over the peak of all workers, 0..1; 0: unknown
  double data_wait_share = 0;  ///< of the step's time, 0..1
};

void derive_rates(StepMetrics& metrics, const JobConstants& job);

/// For people: "step 12/600  loss 0.5123  ...  data 0.3%  1.2 GiB". A skipped step says so loudly.
std::string console_line(const StepMetrics& metrics, int64_t steps);

/// For programs: one JSON object without line end; numbers that are not finite are null.
std::string json_line(const StepMetrics& metrics);

/// A file of JSON lines, each appended by one write, so that whoever reads along sees whole lines.
class MetricsFile {
 public:
  /// Goes on after `last_step`: lines of later steps, and a last line that was cut off, are dropped
  /// first. 0: starts anew.
  MetricsFile(std::filesystem::path path, int64_t last_step);
  void append(const StepMetrics& metrics);

 private:
  std::filesystem::path path_;
  runtime::FileDescriptor fd_;
};

/// The steps of a metrics file in their order; lines that cannot be read are left out. Empty when
/// there is no file.
std::vector<StepMetrics> read_metrics(const std::filesystem::path& path);
/// The newest `count` of them at most, from the end of the file alone.
std::vector<StepMetrics> read_newest_metrics(const std::filesystem::path& path, size_t count);

}  // namespace craton::results
