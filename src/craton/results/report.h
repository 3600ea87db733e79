#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "craton/results/figures.h"
#include "craton/results/metrics.h"
#include "craton/results/result.h"

namespace craton::results {

/// Something that happened to the job: who left, who joined, where it went on.
struct RunEvent {
  enum class Kind {
    kStarted,
    kJoined,
    kLeft,
    kFailed,
    kResized,
    kResumed,
    kRestored,
    kCheckpoint,
    kSkipped,
    kFinished
  };
  Kind kind = Kind::kStarted;
  double elapsed_seconds = 0;  ///< since the run started
  int64_t step = 0;
  int64_t workers = 0;  ///< afterwards; 0: unchanged
  std::string text;     ///< "rank 2 was killed; 3 workers went on after 0.4 s"
};

/// What a report shows.
struct ReportInput {
  Result result;
  std::vector<StepMetrics> metrics;
  std::vector<Figure> figures;
  std::vector<RunEvent> events;
  std::vector<std::pair<std::string, std::string>>
      facts;  ///< e.g. ("Data", "F3, 651 x 951 x 462"), shown under the title
  std::optional<double> baseline_loss;  ///< drawn as a dashed line in the loss chart
  std::string baseline_name = "predicting zero";
  std::string recipe_yaml;
};

/// One HTML page with styles, charts and pictures inside; light and dark; needs no network.
std::string report_html(const ReportInput& input);
void write_report(const std::filesystem::path& path, const ReportInput& input);

}  // namespace craton::results
