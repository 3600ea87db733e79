#pragma once

#include <signal.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <memory>

#include "craton/runtime/running_program.h"
#include "tests/tiny_job.h"

namespace craton::tests {

/// A TinyJob's `craton train` (or `resume`) beside the test, which does something to it meanwhile.
class RunningJob {
 public:
  RunningJob(const TinyJob& job, std::string name, int workers, std::vector<std::string> overrides,
             std::vector<std::string> environment = {})
      : job_(job), name_(std::move(name)) {
    std::vector<std::string> arguments = {"train", "tiny.yaml", "--workers",
                                          std::to_string(workers), "name=" + name_};
    arguments.insert(arguments.end(), overrides.begin(), overrides.end());
    start(std::move(arguments), std::move(environment));
  }

  /// `craton resume` after this one's `craton train` was killed.
  void resume() { start({"resume", name_}, {}); }

  void kill_operator() {
    program_->signal(SIGKILL);
    EXPECT_TRUE(program_->wait(std::chrono::seconds(60)));
  }
  void signal(int number) { program_->signal(number); }

  /// `craton VERB NAME ARGUMENTS`.
  runtime::ProgramResult verb(const std::string& verb, std::vector<std::string> arguments = {}) {
    arguments.insert(arguments.begin(), {verb, name_});
    return job_.program().run(arguments);
  }

  /// Waits until a line of metrics.jsonl fits; fails after two minutes or when the job ends first.
  bool await_metrics(const std::function<bool(const nlohmann::json&)>& fits) {
    return await("metrics.jsonl", fits);
  }
  bool await_step(int64_t step) {
    return await_metrics([&](const auto& line) { return line["step"] >= step; });
  }
  bool await_event(const std::string& kind, int count = 1) {
    int seen = 0;
    return await(
        "events.jsonl",
        [&](const auto& line) {
          if (line["kind"] == kind) ++seen;
          return seen >= count;
        },
        [&] { seen = 0; });
  }
  std::vector<nlohmann::json> events(const std::string& kind = "") const {
    std::vector<nlohmann::json> out;
    for (auto& line : lines("events.jsonl")) {
      if (kind.empty() || line["kind"] == kind) out.push_back(std::move(line));
    }
    return out;
  }
  std::vector<pid_t> workers() const {
    std::vector<pid_t> out;
    for (const auto& worker : job_.program().read_json("runs/" + name_ + "/workers.json"))
      out.push_back(worker["pid"]);
    return out;
  }

  /// Its end; expects success and returns the digest.
  std::string finish() {
    const auto result = end();
    EXPECT_EQ(result.exit_code, 0) << result.errors << result.output;
    return state_digest(result.output);
  }
  runtime::ProgramResult end() {
    const auto result = program_->wait(std::chrono::seconds(120));
    EXPECT_TRUE(result) << name_ << " still runs";
    return result.value_or(runtime::ProgramResult{});
  }
  nlohmann::json result() const {
    return job_.program().read_json("runs/" + name_ + "/result.json");
  }
  std::filesystem::path folder() const { return job_.program().folder() / "runs" / name_; }

 private:
  void start(std::vector<std::string> arguments, std::vector<std::string> environment) {
    const char* bin = std::getenv("CRATON_TEST_BIN");
    arguments.insert(arguments.begin(), std::string(bin ? bin : "build/release/bin") + "/craton");
    runtime::ProgramOptions options;
    options.folder = job_.program().folder().string();
    options.environment = std::move(environment);
    program_ = std::make_unique<runtime::RunningProgram>(arguments, options);
  }

  std::vector<nlohmann::json> lines(const std::string& file) const {
    std::vector<nlohmann::json> out;
    std::ifstream stream(folder() / file);
    for (std::string line; std::getline(stream, line);) {
      auto json = nlohmann::json::parse(line, nullptr, false);
      if (!json.is_discarded()) out.push_back(std::move(json));
    }
    return out;
  }

  bool await(
      const std::string& file, const std::function<bool(const nlohmann::json&)>& fits,
      const std::function<void()>& begin = [] {}) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(2);
    while (std::chrono::steady_clock::now() < deadline) {
      const bool ended = program_->wait(std::chrono::milliseconds(10)).has_value();
      begin();
      for (const auto& line : lines(file)) {
        if (fits(line)) return true;
      }
      if (ended) break;
    }
    ADD_FAILURE() << name_ << ": what was waited for in " << file << " did not come";
    return false;
  }

  const TinyJob& job_;
  const std::string name_;
  std::unique_ptr<runtime::RunningProgram> program_;
};

}  // namespace craton::tests
