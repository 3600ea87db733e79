#pragma once

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/live_job.h"

namespace craton::tests {

/// What one worker process wrote into its ledger.
struct WorkerLedger {
  std::multiset<int64_t> computed;                ///< sample numbers
  std::map<int64_t, std::vector<int64_t>> given;  ///< by committed step
  std::vector<std::string> changes;               ///< before, after, drain
};

/// A job whose workers keep a ledger. Steps take milliseconds; tests hold rank 0 in front of a step
/// while they do something.
class LedgerJob {
 public:
  static constexpr int64_t kSteps = 16;

  LedgerJob() {
    const auto made =
        program_.run({"volume", "synth", "survey.mdio", "--shape", "48,64,64", "--seed", "5"});
    EXPECT_EQ(made.exit_code, 0) << made.errors;
    program_.write("ledger.yaml", R"(
name: ledger
seed: 5
data:
  volumes: [{uri: survey.mdio}]
  window: [16, 16, 16]
model: {kind: ledger, window: [16, 16, 16]}
train:
  steps: 16
  global_batch: 16
  micro_batch: 2
  optimizer: {lr: 1.0e-3}
  validate_every: 0
parallel: {max_workers: 5, shards: 16}
checkpoint: {every: 0}
)");
  }

  const CratonProgram& program() const { return program_; }
  int64_t samples_per_step(int64_t micro_batches) const { return 2 * micro_batches; }

  std::unique_ptr<LiveJob> start(const std::string& name, int workers,
                                 std::vector<std::string> overrides,
                                 std::vector<std::string> environment = {}) const {
    std::filesystem::create_directories(ledger_folder(name));
    const auto own = environment_of(name);
    environment.insert(environment.end(), own.begin(), own.end());
    std::vector<std::string> arguments = {"train", "ledger.yaml", "--workers",
                                          std::to_string(workers), "name=" + name};
    arguments.insert(arguments.end(), overrides.begin(), overrides.end());
    return std::make_unique<LiveJob>(program_, name, arguments, environment);
  }

  /// `craton resume`, after the job's operator was killed.
  std::unique_ptr<LiveJob> resume(const std::string& name) const {
    return std::make_unique<LiveJob>(program_, name, std::vector<std::string>{"resume", name},
                                     environment_of(name));
  }

  /// By process.
  std::map<std::string, WorkerLedger> read(const std::string& name) const {
    std::map<std::string, WorkerLedger> all;
    for (const auto& entry : std::filesystem::directory_iterator(ledger_folder(name))) {
      WorkerLedger& ledger = all[entry.path().stem()];
      std::ifstream file(entry.path());
      for (std::string line; std::getline(file, line);) {
        std::istringstream words(line);
        std::string what;
        words >> what;
        if (what == "computed") {
          int64_t number = -1;
          words >> number;
          ledger.computed.insert(number);
        } else if (what == "committed") {
          int64_t step = 0;
          words >> step;
          auto& given = ledger.given[step];
          given.clear();
          for (int64_t number; words >> number;) given.push_back(number);
        } else {
          ledger.changes.push_back(line);
        }
      }
    }
    return all;
  }

  /// Every sample of every step was given to it once, by somebody who had computed it. What nobody
  /// says to have given came from a worker that was lost after it: it had computed it.
  void expect_each_once(const std::string& name, int64_t steps, int64_t samples) const {
    expect_each_once(name, std::vector<int64_t>(static_cast<size_t>(steps), samples));
  }
  /// `samples`: of each step.
  void expect_each_once(const std::string& name, const std::vector<int64_t>& samples) const {
    const auto all = read(name);
    const auto steps = static_cast<int64_t>(samples.size());
    int64_t next = 0;
    for (int64_t step = 1; step <= steps; ++step) {
      std::set<int64_t> missing;
      for (int64_t i = 0; i < samples[static_cast<size_t>(step) - 1]; ++i) missing.insert(next++);
      for (const auto& [process, ledger] : all) {
        const auto given = ledger.given.find(step);
        if (given == ledger.given.end()) continue;
        for (int64_t number : given->second) {
          EXPECT_TRUE(missing.erase(number)) << name << ": sample " << number << " in step " << step
                                             << " twice, or of another step";
          EXPECT_TRUE(ledger.computed.contains(number))
              << name << ": sample " << number << " was given, not computed";
        }
      }
      for (int64_t number : missing) {
        bool by_a_lost_worker = false;
        for (const auto& [process, ledger] : all)
          by_a_lost_worker |= !ledger.given.contains(step) && ledger.computed.contains(number);
        EXPECT_TRUE(by_a_lost_worker)
            << name << ": sample " << number << " is not in step " << step;
      }
    }
  }

  /// And nothing was computed in vain.
  void expect_computed_once(const std::string& name, int64_t steps, int64_t samples) const {
    std::multiset<int64_t> computed;
    for (const auto& [process, ledger] : read(name))
      computed.insert(ledger.computed.begin(), ledger.computed.end());
    EXPECT_EQ(computed.size(), static_cast<size_t>(steps * samples)) << name;
    for (int64_t i = 0; i < steps * samples; ++i)
      EXPECT_EQ(computed.count(i), 1u) << name << ": sample " << i;
  }

  std::filesystem::path hold_file(const std::string& name, int64_t step) const {
    return program_.folder() / ("hold-" + name + "-" + std::to_string(step));
  }
  /// A fault that holds rank 0 in front of `step` until `release`.
  std::string hold(const std::string& name, int64_t step) const {
    return "compute.before:rank=0:step=" + std::to_string(step) +
           ":hold=" + hold_file(name, step).string();
  }
  void release(const std::string& name, int64_t step) const {
    runtime::write_file_atomically(hold_file(name, step), "go");
  }

 private:
  std::vector<std::string> environment_of(const std::string& name) const {
    return {"CRATON_WORKER=" + CratonProgram::path_of("ledger_worker"),
            "CRATON_TEST_LEDGER=" + ledger_folder(name).string()};
  }
  std::filesystem::path ledger_folder(const std::string& name) const {
    return program_.folder() / "ledgers" / name;
  }
  CratonProgram program_;
};

}  // namespace craton::tests
