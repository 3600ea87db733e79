#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "craton/app/cli/interrupt.h"
#include "craton/app/cli/job_argument.h"
#include "craton/app/cli/verbs.h"
#include "craton/base/units.h"
#include "craton/control/job_folder.h"
#include "craton/results/metrics.h"

namespace craton::app {
namespace {

constexpr size_t kSteps = 20;  ///< that a line is about

struct TopArguments {
  std::string job;
  double seconds = 1;
  bool once = false;
};

std::string bar(double share) {
  constexpr size_t kWidth = 10;
  const auto full = static_cast<size_t>(std::clamp(share, 0.0, 1.0) * kWidth + 0.5);
  return std::string(full, '#') + std::string(kWidth - full, '.');
}

std::string line_of(const std::filesystem::path& folder) {
  const control::JobOnDisk job = control::inspect_job(folder);
  const auto steps = results::read_newest_metrics(folder / "metrics.jsonl", kSteps);
  const std::string name = fmt::format("{:<20.20} ", job.name);
  if (steps.empty()) return name + control::describe(job).substr(0, 80);
  double seconds = 0, waited = 0, samples = 0;
  for (const results::StepMetrics& step : steps) {
    seconds += step.seconds;
    waited += step.data_wait_seconds;
    samples += step.samples_per_second * step.seconds;
  }
  const results::StepMetrics& last = steps.back();
  const double share = seconds > 0 ? waited / seconds : 0;
  return name + fmt::format("{:>15} {:>7} {:>9.4f} {:>10.4g} {:>9} {:>6.1f}% {} {:>10}  {}",
                            fmt::format("{} of {}", last.step, job.steps), last.workers, last.loss,
                            seconds > 0 ? samples / seconds : 0,
                            format_seconds(seconds / static_cast<double>(steps.size())),
                            100 * share, bar(share),
                            format_bytes(static_cast<double>(last.memory_bytes)),
                            control::describe(job).substr(0, 40));
}

/// The job that was named, or all that run.
std::vector<std::filesystem::path> folders_of(const TopArguments& arguments) {
  if (!arguments.job.empty()) return {control::find_job(arguments.job)};
  auto folders = control::list_jobs();
  std::erase_if(folders, [](const auto& folder) { return !control::RunLock::held(folder); });
  return folders;
}

void show_top(const TopArguments& arguments) {
  const bool terminal = ::isatty(STDOUT_FILENO) == 1;
  const Interrupt interrupt;
  for (;;) {
    std::string text =
        fmt::format("{:<20} {:>15} {:>7} {:>9} {:>10} {:>9} {:>18} {:>10}  {}\n", "job", "step",
                    "workers", "loss", "samples/s", "a step", "data wait", "memory", "state");
    const auto folders = folders_of(arguments);
    for (const auto& folder : folders) text += line_of(folder) + "\n";
    if (folders.empty()) text += "no job runs here (./runs)\n";
    if (terminal && !arguments.once) fmt::print("\033[H\033[J");
    fmt::print("{}", text);
    std::fflush(stdout);
    if (arguments.once || interrupt.flag()) return;
    ::poll(nullptr, 0, static_cast<int>(arguments.seconds * 1000));  // a signal ends it
    if (interrupt.flag()) return;
  }
}

}  // namespace

void add_top(CLI::App& app) {
  auto arguments = std::make_shared<TopArguments>();
  CLI::App* verb = app.add_subcommand(
      "top", "Watch the jobs that run: loss, rate, and how long they wait for data");
  verb->footer(fmt::format(
      "Rates and data wait are those of the newest {} steps. Ends with Ctrl-C.", kSteps));
  verb->add_option("job", arguments->job, "Name of a run in ./runs, or its folder (all that run)");
  verb->add_option("--seconds,-s", arguments->seconds, "Between two looks")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  verb->add_flag("--once", arguments->once, "Look once");
  verb->callback([arguments] { show_top(*arguments); });
}

}  // namespace craton::app
