#pragma once

#include <signal.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "craton/runtime/running_program.h"
#include "tests/craton_program.h"

namespace craton::tests {

/// A `craton train` that runs beside the test, which waits for what the job says and then does
/// something to it. Nothing here waits for a time: each wait ends with an event, or with the job.
class LiveJob {
 public:
  /// `name`: the job's; `arguments` are those of `craton`.
  LiveJob(const CratonProgram& program, const std::string& name,
          const std::vector<std::string>& arguments, const std::vector<std::string>& environment)
      : folder_(program.folder() / "runs" / name), running_(program.start(arguments, environment)) {
    std::filesystem::remove(folder_ / "events.jsonl");
  }

  const std::filesystem::path& folder() const { return folder_; }
  const runtime::RunningProgram& program() const { return *running_; }
  /// Worker processes that live.
  std::vector<pid_t> workers() const { return running_->children(); }

  /// Lines of events.jsonl, or those of one kind.
  std::vector<nlohmann::json> events(const std::string& kind = "") const {
    return lines(folder_ / "events.jsonl", [&](const nlohmann::json& line) {
      return kind.empty() || line.value("kind", "") == kind;
    });
  }
  std::vector<nlohmann::json> metrics() const { return metrics_of(folder_); }
  /// Of a run's folder.
  static std::vector<nlohmann::json> metrics_of(const std::filesystem::path& folder) {
    return lines(folder / "metrics.jsonl", [](const nlohmann::json&) { return true; });
  }
  size_t count(const std::string& kind) const { return events(kind).size(); }

  /// Until `holds`; false when the job ended before. Workers that were fenced while they were
  /// stopped wake up meanwhile, as zombies.
  template <typename Condition>
  bool await(Condition holds) {
    while (!holds()) {
      wake_zombies();
      if (running_->wait(std::chrono::milliseconds(5))) return holds();
    }
    return true;
  }
  bool await_events(const std::string& kind, size_t wanted) {
    return await([&] { return count(kind) >= wanted; });
  }
  bool await_step(int64_t step) {
    return await([&] {
      const auto all = metrics();
      return !all.empty() && all.back()["step"].get<int64_t>() >= step;
    });
  }

  /// Waits for the end.
  runtime::ProgramResult finish() {
    std::optional<runtime::ProgramResult> result;
    while (!result) {
      wake_zombies();
      result = running_->wait(std::chrono::milliseconds(20));
    }
    return *result;
  }

 private:
  template <typename Wanted>
  static std::vector<nlohmann::json> lines(const std::filesystem::path& path, Wanted wanted) {
    std::vector<nlohmann::json> out;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
      auto parsed = nlohmann::json::parse(line, nullptr, false);
      if (!parsed.is_discarded() && wanted(parsed)) out.push_back(std::move(parsed));
    }
    return out;
  }
  void wake_zombies() {
    const size_t lost = count("lost worker");
    if (lost == lost_) return;
    lost_ = lost;
    for (pid_t worker : workers()) ::kill(worker, SIGCONT);
  }

  const std::filesystem::path folder_;
  const std::unique_ptr<runtime::RunningProgram> running_;
  size_t lost_ = 0;
};

}  // namespace craton::tests
