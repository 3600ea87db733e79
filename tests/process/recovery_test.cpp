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

  /// Trains on three workers with faults, between them ';'; the digest must be the quiet run's, and
  /// exactly as many workers must have been lost.
  static void survive(const std::string& strategy, const std::string& fault,
                      std::vector<std::string> overrides = {}) {
    ++number_;
    const std::string name = name_of_last();
    overrides.push_back("parallel.strategy=" + strategy);
    if (strategy != "ddp") overrides.push_back("parallel.backups=1");
    EXPECT_EQ(job_->digest(name, 3, overrides, {"CRATON_FAULTS=" + fault}), quiet_)
        << strategy << " " << fault;
    const std::string events =
        runtime::read_text(job_->program().folder() / "runs" / name / "events.jsonl");
    EXPECT_NE(events.find("\"lost worker\""), std::string::npos)
        << strategy << " " << fault << ": nothing was lost";
    const auto result = job_->program().read_json("runs/" + name + "/result.json");
    EXPECT_EQ(result["lost_steps"], 0) << fault;
    EXPECT_EQ(result["failures"], workers_lost_by(fault)) << strategy << " " << fault;
  }

  /// Each kill and each throw ends a worker; a bit that flips on the way does not.
  static int workers_lost_by(const std::string& faults) {
    int lost = 0;
    for (const std::string action : {":kill", ":throw"}) {
      for (size_t at = faults.find(action); at != std::string::npos;
           at = faults.find(action, at + 1))
        ++lost;
    }
    return lost;
  }

  static std::string name_of_last() { return "fault-" + std::to_string(number_); }

  static inline TinyJob* job_ = nullptr;
  static inline std::string quiet_;
  static inline int number_ = 0;
};

TEST_F(Recovery, FromAKillAtEachPointOfTheStep) {
  const std::vector<std::string> points = {"compute.before", "compute.after",    "reduce.send",
                                           "reduce.collect", "store.before_ack", "store.after_ack",
                                           "commit.before",  "commit.sent",      "commit.after",
                                           "apply.middle",   "gather.after"};
  const std::vector<std::string> strategies = {"ddp", "zero1", "zero2", "zero3"};
  for (size_t k = 0; k < points.size(); ++k) {
    // Strategies and ranks take turns here; the whole product is a longer campaign.
    survive(strategies[k % strategies.size()], points[k] + ":rank=" + std::to_string((k + 1) % 3) +
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
      // Checkpoints are written beside training: step 4 begins when that of step 2 is whole.
      {"CRATON_FAULTS=compute.before:rank=1:step=4:hold=runs/no-backup/checkpoints/step-00000002; "
       "commit.before:rank=1:step=4:kill"});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(state_digest(result.output), quiet_);
  EXPECT_NE(result.output.find("back to the checkpoint of step 2"), std::string::npos)
      << result.output;
  EXPECT_EQ(job_->program().read_json("runs/no-backup/result.json")["lost_steps"], 1);
}

// The job is told from outside what a run is: the same numbers for each step, whoever is lost and
// whoever joins.
TEST_F(Recovery, MetricsAreThoseOfTheQuietRun) {
  const std::string hold = (job_->program().folder() / "hold-metrics").string();
  const auto job = job_->start(
      "metrics", 3, {"parallel.strategy=zero1", "parallel.backups=1"},
      {"CRATON_FAULTS=store.after_ack:rank=1:step=2:kill; compute.before:rank=0:step=3:hold=" +
       hold});
  ASSERT_TRUE(job->await_events("admitted", 4));
  runtime::write_file_atomically(hold, "go");
  EXPECT_EQ(job->digest(), quiet_);
  const auto disturbed = job->metrics();
  const auto quiet = LiveJob::metrics_of(job_->program().folder() / "runs" / "quiet");
  ASSERT_EQ(disturbed.size(), quiet.size());
  for (size_t i = 0; i < quiet.size(); ++i) {
    for (const char* number :
         {"step", "loss", "val_loss", "grad_norm", "lr", "applied", "skipped_steps"}) {
      EXPECT_EQ(disturbed[i].value(number, nlohmann::json()),
                quiet[i].value(number, nlohmann::json()))
          << number << " of step " << i + 1;
    }
  }
  EXPECT_TRUE(quiet.back().contains("val_loss") && quiet.back().contains("lr"));
  EXPECT_EQ(disturbed.back()["workers"], 3);
}

// The whole job ends between the workers' parts of a checkpoint and its manifest: what was saved
// before counts, with the data that belong to it.
TEST_F(Recovery, FromAnEndInTheMiddleOfACheckpoint) {
  const std::string hold = (job_->program().folder() / "never").string();
  {
    const auto job =
        job_->start("cut", 2, {"checkpoint.every=1"},
                    {"CRATON_FAULTS=checkpoint.between:rank=1:occurrence=3:hold=" + hold});
    ASSERT_TRUE(job->await_step(3));
    job->signal(SIGKILL);
  }
  const auto result = job_->train("cut", 3, {"parallel.strategy=zero2", "checkpoint.every=1"});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_NE(result.output.find("goes on after step "), std::string::npos) << result.output;
  EXPECT_EQ(result.output.find("step 1/4"), std::string::npos) << "step 1 was done twice";
  EXPECT_EQ(state_digest(result.output), quiet_);
}

// Of the three copies of a shard some have the step applied and one has not when a fourth is made.
TEST_F(Recovery, WithHoldersThatStandAtDifferentSteps) {
  for (const std::string strategy : {"zero1", "zero2"}) {
    const std::string name = "apart-" + strategy;
    EXPECT_EQ(job_->digest(name, 4, {"parallel.strategy=" + strategy, "parallel.backups=2"},
                           {"CRATON_FAULTS=commit.after:rank=1:step=2:kill; "
                            "commit.after:rank=2:step=2:delay=300"}),
              quiet_);
    const auto events =
        runtime::read_text(job_->program().folder() / "runs" / name / "events.jsonl");
    EXPECT_EQ(events.find("differ"), std::string::npos) << events;
    EXPECT_EQ(job_->program().read_json("runs/" + name + "/result.json")["lost_steps"], 0);
  }
}

TEST_F(Recovery, BelowTheMinimumTheJobWaitsForAReplacement) {
  survive("zero1", "compute.after:rank=1:step=2:kill", {"parallel.min_workers=3"});
  const auto metrics = LiveJob::metrics_of(job_->program().folder() / "runs" / name_of_last());
  for (const auto& step : metrics) EXPECT_EQ(step["workers"], 3);
}

TEST_F(Recovery, WhenAllWorkersAreLostOneAfterTheOther) {
  const auto result = job_->train(
      "all-lost", 3, {"parallel.strategy=zero1", "parallel.backups=1", "checkpoint.every=1"},
      {"CRATON_FAULTS=compute.after:rank=0:step=3:kill; reduce.collect:rank=1:step=3:kill; "
       "report.before:rank=2:step=3:kill"});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(state_digest(result.output), quiet_) << result.output;
}

// A flipped bit in a second copy on its way is noticed by its receiver; the copy comes again.
TEST_F(Recovery, FromADamagedTransfer) {
  survive("zero1", "compute.after:rank=1:step=2:kill; transfer.received:rank=2:step=2:flip");
}

}  // namespace
}  // namespace craton::tests
