#pragma once

#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
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
  LiveJob(const CratonProgram& program, std::string name, const std::vector<std::string>& arguments,
          std::vector<std::string> environment = {})
      : program_(program),
        name_(std::move(name)),
        folder_(program.folder() / "runs" / name_),
        running_(program.start(arguments, std::move(environment))) {}

  const std::string& name() const { return name_; }
  const std::filesystem::path& folder() const { return folder_; }

  /// Sends a signal to operator and agent.
  void signal(int number) { running_->signal(number); }
  /// Ends operator and agent without a word to the workers.
  void kill_operator() {
    running_->signal(SIGKILL);
    finish();
  }
  /// `craton resume` after the end of the first `craton`.
  void resume() { running_ = program_.start({"resume", name_}, {}); }
  /// `craton VERB NAME ARGUMENTS`.
  runtime::ProgramResult verb(const std::string& verb, std::vector<std::string> arguments = {}) {
    arguments.insert(arguments.begin(), {verb, name_});
    return program_.run(arguments);
  }

  /// Worker processes, as the agent lists them.
  std::vector<pid_t> workers() const {
    std::vector<pid_t> out;
    for (const auto& worker : program_.read_json("runs/" + name_ + "/workers.json"))
      out.push_back(worker["pid"]);
    return out;
  }
  /// Lines of events.jsonl, or those of one kind.
  std::vector<nlohmann::json> events(const std::string& kind = "") const {
    auto all = lines_of(folder_ / "events.jsonl");
    if (!kind.empty()) std::erase_if(all, [&](const auto& line) { return line["kind"] != kind; });
    return all;
  }
  size_t count(const std::string& kind) const { return events(kind).size(); }
  std::vector<nlohmann::json> metrics() const { return metrics_of(folder_); }
  /// Of a run's folder.
  static std::vector<nlohmann::json> metrics_of(const std::filesystem::path& folder) {
    return lines_of(folder / "metrics.jsonl");
  }
  nlohmann::json result() const { return program_.read_json("runs/" + name_ + "/result.json"); }

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
  bool await_events(const std::string& kind, size_t wanted = 1) {
    return await([&] { return count(kind) >= wanted; });
  }
  /// Until a step is done on so many workers.
  bool await_size(int workers) {
    return await([&] {
      const auto all = metrics();
      return std::any_of(all.begin(), all.end(),
                         [&](const auto& line) { return line["workers"] == workers; });
    });
  }
  bool await_step(int64_t step) {
    return await([&] {
      const auto all = metrics();
      return !all.empty() && all.back()["step"].template get<int64_t>() >= step;
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
  /// Waits for the end, expects success and returns the digest.
  std::string digest() {
    const auto result = finish();
    EXPECT_EQ(result.exit_code, 0) << name_ << "\n" << result.output << result.errors;
    return state_digest(result.output);
  }

 private:
  static std::vector<nlohmann::json> lines_of(const std::filesystem::path& path) {
    std::vector<nlohmann::json> out;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
      auto parsed = nlohmann::json::parse(line, nullptr, false);
      if (!parsed.is_discarded()) out.push_back(std::move(parsed));
    }
    return out;
  }
  void wake_zombies() {
    const size_t lost = count("lost worker");
    if (lost == lost_) return;
    lost_ = lost;
    for (pid_t worker : running_->children()) ::kill(worker, SIGCONT);
  }

  const CratonProgram& program_;
  const std::string name_;
  const std::filesystem::path folder_;
  std::unique_ptr<runtime::RunningProgram> running_;
  size_t lost_ = 0;
};

}  // namespace craton::tests
