// `recovery:` turns the parts of recovery off one by one; whatever is off, the bits stay the same.
// Failures that would come again end the job with one line.

#include "tests/tiny_job.h"

namespace craton::tests {
namespace {

class RecoveryParts : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    job_ = new TinyJob;
    quiet_ = job_->digest("quiet", 1, {});
  }
  static void TearDownTestSuite() { delete job_; }

  /// Trains on three workers of which one is killed in step 3. Returns the events.
  static std::string survive(const std::string& name, std::vector<std::string> overrides) {
    EXPECT_EQ(job_->digest(name, 3, std::move(overrides),
                           {"CRATON_FAULTS=commit.after:rank=1:step=3:kill"}),
              quiet_)
        << name;
    return runtime::read_text(job_->program().folder() / "runs" / name / "events.jsonl");
  }
  static int64_t lost_steps(const std::string& name) {
    return job_->program().read_json("runs/" + name + "/result.json")["lost_steps"];
  }
  /// Processes that the job has started.
  static int started(const std::string& name) {
    int count = 0;
    while (std::filesystem::exists(job_->program().folder() / "runs" / name /
                                   ("worker-" + std::to_string(count) + ".log")))
      ++count;
    return count;
  }
  static void expect_end(const runtime::ProgramResult& result, const std::string& words) {
    EXPECT_EQ(result.exit_code, 1) << result.output;
    EXPECT_EQ(std::count(result.errors.begin(), result.errors.end(), '\n'), 1) << result.errors;
    EXPECT_NE(result.errors.find(words), std::string::npos) << result.errors;
  }

  static inline TinyJob* job_ = nullptr;
  static inline std::string quiet_;
};

TEST_F(RecoveryParts, WithoutTheDataCache) {
  survive("no-cache", {"recovery.data_cache=off", "parallel.strategy=zero1", "parallel.backups=1"});
  EXPECT_EQ(lost_steps("no-cache"), 0);
}

TEST_F(RecoveryParts, WithoutPeerState) {
  const std::string events = survive("no-peers", {"recovery.peer_state=off"});
  EXPECT_NE(events.find("\"loss\""), std::string::npos) << events;
  EXPECT_GE(lost_steps("no-peers"), 2);
  EXPECT_EQ(started("no-peers"), 4);
}

TEST_F(RecoveryParts, WithoutPeerStateAndDataCache) {
  survive("no-peers-no-cache", {"recovery.peer_state=off", "recovery.data_cache=off"});
}

TEST_F(RecoveryParts, WithoutConnections) {
  const std::string events =
      survive("no-links", {"recovery.communicator=off", "recovery.peer_state=off"});
  EXPECT_NE(events.find("\"restart\""), std::string::npos) << events;
  EXPECT_GE(lost_steps("no-links"), 2);
  EXPECT_EQ(started("no-links"), 4) << "survivors keep their processes";
}

TEST_F(RecoveryParts, WithoutConnectionsAndDataCache) {
  survive("no-links-no-cache", {"recovery.communicator=off", "recovery.peer_state=off",
                                "recovery.data_cache=off", "parallel.strategy=zero2"});
}

TEST_F(RecoveryParts, WithoutProcesses) {
  const std::string events =
      survive("no-processes", {"recovery.in_process=off", "checkpoint.every=1"});
  EXPECT_NE(events.find("\"restart\""), std::string::npos) << events;
  EXPECT_EQ(started("no-processes"), 6);
}

TEST_F(RecoveryParts, AnErrorThatComesAgainEndsTheJob) {
  const auto result = job_->train("again", 3, {},
                                  {"CRATON_FAULTS=compute.before:rank=0:step=3:throw; "
                                   "compute.before:rank=1:step=3:throw; "
                                   "compute.before:rank=2:step=3:throw"});
  expect_end(result, "3 workers failed in the same way without a finished step: fault injected");
}

TEST_F(RecoveryParts, ACrashLoopEndsTheJobWithTheLastOnesWords) {
  // Losses that come while one is being handled are one failure with it.
  const auto result =
      job_->train("loop", 3, {"elastic.failures_without_progress=2", "parallel.min_workers=3"},
                  {"CRATON_FAULTS=compute.before:rank=0:step=3:kill; "
                   "compute.before:rank=1:step=3:kill; "
                   "compute.before:rank=2:step=3:kill",
                   "CRATON_JOINER_FAULTS=compute.before:kill"});
  expect_end(result, "2 failures without a finished step; the last one: worker ");
  const auto status = job_->program().run({"status", "loop"});
  EXPECT_NE(status.output.find("failed: 2 failures"), std::string::npos) << status.output;
}

TEST_F(RecoveryParts, AFullDiskEndsTheJob) {
  const auto result = job_->train("full", 3, {"checkpoint.every=1"},
                                  {"CRATON_FAULTS=checkpoint.write:rank=1:full"});
  expect_end(result, "No space left on device");
}

}  // namespace
}  // namespace craton::tests
