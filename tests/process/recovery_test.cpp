// P2 and P3: a worker that is killed, or throws, at any point of the protocol costs no finished
// step, and the job ends with the bits of the quiet run.

#include "tests/tiny_job.h"

namespace craton::tests {
namespace {

class Recovery : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    job_ = new TinyJob;
    quiet_ = job_->digest("quiet", 1, {});
  }
  static void TearDownTestSuite() { delete job_; }

  /// Trains on three workers with a fault; the digest must be the quiet run's, and exactly one
  /// worker must have been lost.
  static void survive(const std::string& strategy, const std::string& fault) {
    const std::string name = "fault-" + std::to_string(number_++);
    std::vector<std::string> overrides = {"parallel.strategy=" + strategy};
    if (strategy != "ddp") overrides.push_back("parallel.backups=1");
    EXPECT_EQ(job_->digest(name, 3, overrides, {"CRATON_FAULTS=" + fault}), quiet_)
        << strategy << " " << fault;
    const std::string events =
        runtime::read_text(job_->program().folder() / "runs" / name / "events.jsonl");
    EXPECT_NE(events.find("\"lost worker\""), std::string::npos)
        << strategy << " " << fault << ": nothing was lost";
    EXPECT_EQ(job_->program().read_json("runs/" + name + "/result.json")["lost_steps"], 0);
  }

  static inline TinyJob* job_ = nullptr;
  static inline std::string quiet_;
  static inline int number_ = 0;
};

TEST_F(Recovery, FromAKillAtEachPointOfTheStep) {
  const std::vector<std::string> points = {"compute.before", "compute.after",    "reduce.send",
                                           "reduce.collect", "store.before_ack", "store.after_ack",
                                           "commit.before",  "commit.sent",      "commit.after",
                                           "apply.middle",   "gather.after"};
  const std::vector<std::string> strategies = {"ddp", "zero1", "zero2"};
  for (size_t k = 0; k < points.size(); ++k) {
    // Strategies and ranks take turns here; the whole product is a longer campaign.
    survive(strategies[k % 3], points[k] + ":rank=" + std::to_string((k + 1) % 3) +
                                   ":step=" + std::to_string(2 + k % 2) + ":kill");
  }
}

TEST_F(Recovery, FromAnErrorInTheMiddleOfAStep) {
  survive("ddp", "compute.after:rank=0:step=2:throw");
  survive("zero1", "store.before_ack:rank=1:step=3:throw");
  survive("zero2", "commit.after:rank=2:step=2:throw");
}

TEST_F(Recovery, InTheFirstStep) { survive("zero1", "reduce.collect:rank=1:step=1:kill"); }

TEST_F(Recovery, FromASecondKillInsideTheRecoveryOfTheFirst) {
  // The survivor that reports first dies there; one worker is left, with a copy of everything in
  // ddp.
  survive("ddp", "commit.after:rank=1:step=2:kill; report.after:rank=0:step=2:kill");
}

TEST_F(Recovery, WithoutBackupsGoesBackToTheCheckpointAndSaysSo) {
  const auto result = job_->train(
      "no-backup", 3, {"parallel.strategy=zero1", "parallel.backups=0", "checkpoint.every=2"},
      {"CRATON_FAULTS=commit.before:rank=1:step=4:kill"});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(state_digest(result.output), quiet_);
  EXPECT_NE(result.output.find("back to the checkpoint of step 2"), std::string::npos)
      << result.output;
  // One or three: checkpoints are written beside training, so that of step 2 may not have been whole yet.
  EXPECT_GE(job_->program().read_json("runs/no-backup/result.json")["lost_steps"], 1);
}

}  // namespace
}  // namespace craton::tests
