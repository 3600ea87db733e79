#pragma once

#include <signal.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "craton/base/error.h"
#include "craton/results/metrics.h"
#include "craton/runtime/file.h"
#include "craton/runtime/running_program.h"

namespace craton::bench {

inline void sleep_seconds(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

inline double wall_seconds() {
  return 1e-9 * static_cast<double>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
}

/// bin/craton of this build.
inline std::string craton_program() {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "../bin/craton").string();
}

/// A folder with the demo's survey, for jobs of the demo's recipe.
class BenchFolder {
 public:
  BenchFolder() {
    runtime::ProgramOptions options;
    options.folder = path().string();
    const auto made =
        runtime::run_program({craton_program(), "volume", "synth", "volumes/demo.mdio", "--shape",
                              "160,160,256", "--seed", "7"},
                             options);
    if (made.exit_code != 0) fail(ErrorCode::kInternal, "no survey: {}", made.errors);
  }
  const std::filesystem::path& path() const { return folder_.path(); }

 private:
  runtime::TemporaryDirectory folder_;
};

/// `craton train` of the demo's recipe, shortened, running beside this program.
class BenchJob {
 public:
  BenchJob(const BenchFolder& folder, const std::string& name,
           const std::vector<std::string>& overrides, int workers,
           const std::vector<std::string>& environment = {})
      : run_folder_(folder.path() / "runs" / name),
        first_line_(count_lines()),
        program_(arguments(name, overrides, workers), in(folder.path(), environment)) {}

  const std::filesystem::path& run_folder() const { return run_folder_; }
  std::vector<results::StepMetrics> metrics() const {
    return results::read_metrics(run_folder_ / "metrics.jsonl");
  }
  nlohmann::json result() const {
    return nlohmann::json::parse(runtime::read_text(run_folder_ / "result.json"));
  }

  void await_step(int64_t step) {
    await([&] {
      const auto steps = metrics();
      return !steps.empty() && steps.back().step >= step && steps.size() != first_line_;
    });
  }
  void await_checkpoint(int64_t step) {
    const auto folder = run_folder_ / "checkpoints" / fmt::format("step-{:08}", step);
    await([&] { return std::filesystem::exists(folder); });
  }
  /// Until a step was done by `workers` after one that was done by fewer; returns that step.
  int64_t await_admission(int workers) {
    int64_t step = 0;
    const size_t before = metrics().size();
    await([&] {
      const auto steps = metrics();
      bool fewer = false;
      for (size_t i = before; i < steps.size(); ++i) {
        fewer |= steps[i].workers < workers;
        if (fewer && steps[i].workers == workers) {
          step = steps[i].step;
          return true;
        }
      }
      return false;
    });
    return step;
  }

  /// Kills one worker; the wall clock's time at which it was done.
  double kill_worker(size_t index) {
    const auto workers = program_.children();
    ::kill(workers.at(index % workers.size()), SIGKILL);
    return wall_seconds();
  }
  /// The whole job at once.
  double kill_all() {
    const auto workers = program_.children();
    program_.signal(SIGKILL);
    for (pid_t worker : workers) ::kill(worker, SIGKILL);
    const double now = wall_seconds();
    (void)program_.wait(std::chrono::minutes(1));
    return now;
  }
  void finish() {
    const auto result = program_.wait(std::chrono::minutes(20));
    if (!result || result->exit_code != 0)
      fail(ErrorCode::kInternal, "{} failed: {}", run_folder_.string(),
           result ? result->errors : "it does not end");
  }

 private:
  static std::vector<std::string> arguments(const std::string& name,
                                            const std::vector<std::string>& overrides,
                                            int workers) {
    std::vector<std::string> all = {craton_program(),
                                    "train",
                                    CRATON_SOURCE_DIR "/recipes/sfm-demo.yaml",
                                    "--workers",
                                    std::to_string(workers),
                                    "name=" + name,
                                    "train.validate_every=0",
                                    "checkpoint.every=0",
                                    "checkpoint.resume=none"};
    for (const std::string& entry : overrides) {
      const std::string key = entry.substr(0, entry.find('=') + 1);
      std::erase_if(all, [&](const std::string& other) { return other.starts_with(key); });
      all.push_back(entry);
    }
    return all;
  }
  static runtime::ProgramOptions in(const std::filesystem::path& folder,
                                    const std::vector<std::string>& environment) {
    runtime::ProgramOptions options;
    options.folder = folder.string();
    options.environment = environment;
    return options;
  }
  size_t count_lines() const { return metrics().size(); }

  template <typename Condition>
  void await(Condition holds) {
    while (!holds()) {
      const auto ended = program_.wait(std::chrono::milliseconds(2));
      if (ended && !holds())
        fail(ErrorCode::kInternal, "{} ended too early: {}", run_folder_.string(), ended->errors);
    }
  }

  const std::filesystem::path run_folder_;
  const size_t first_line_;
  runtime::RunningProgram program_;
};

}  // namespace craton::bench
