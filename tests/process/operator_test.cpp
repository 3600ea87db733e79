// What users do to a running job: scale, drain, stop, ask. The results stay those of a quiet run.

#include <algorithm>
#include <set>

#include "tests/tiny_job.h"

namespace craton::tests {
namespace {

constexpr const char* kSteps = "train.steps=40";
/// Once in the job a step takes this long, so that what was asked for before it happens before the
/// end: a new worker needs a second or two to start.
std::string slow_step(int rank) {
  return "CRATON_FAULTS=compute.before:rank=" + std::to_string(rank) + ":step=20:delay=6000";
}

class Operator : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    job_ = new TinyJob;
    quiet_ = job_->digest("quiet", 1, {kSteps});
  }
  static void TearDownTestSuite() { delete job_; }

  static void expect_refused(const runtime::ProgramResult& result, const std::string& words) {
    EXPECT_NE(result.exit_code, 0);
    EXPECT_EQ(std::count(result.errors.begin(), result.errors.end(), '\n'), 1) << result.errors;
    EXPECT_NE(result.errors.find(words), std::string::npos) << result.errors;
  }

  static inline TinyJob* job_ = nullptr;
  static inline std::string quiet_;
};

TEST_F(Operator, ScalesUpAndDownWithTheSameBits) {
  const auto job = job_->start(
      "scaled", 2, {kSteps, "parallel.strategy=zero1", "parallel.backups=1"}, {slow_step(0)});
  ASSERT_TRUE(job->await_step(2));
  const auto status = job->verb("status");
  EXPECT_EQ(status.exit_code, 0) << status.errors;
  EXPECT_NE(status.output.find("2 wanted, 1 to 8 possible"), std::string::npos) << status.output;
  const auto up = job->verb("scale", {"--workers", "3"});
  EXPECT_EQ(up.exit_code, 0) << up.errors;
  EXPECT_TRUE(job->await_size(3));
  EXPECT_EQ(job->verb("scale", {"--workers", "1"}).exit_code, 0);
  EXPECT_TRUE(job->await_size(1));
  EXPECT_EQ(job->digest(), quiet_);
  EXPECT_EQ(job->result()["lost_steps"], 0);
  EXPECT_TRUE(job->events("lost worker").empty());
  const auto resumed = job->events("resumed");
  ASSERT_EQ(resumed.size(), 3u);
  EXPECT_TRUE(resumed[1]["planned"]);
  const auto table = job->verb("events");
  EXPECT_NE(table.output.find("3 workers were asked for"), std::string::npos) << table.output;
  EXPECT_NE(job->verb("events", {"--json"}).output.find("\"commit_seconds\":"), std::string::npos);
}

TEST_F(Operator, ADrainedRankIsReplaced) {
  const auto job = job_->start("drained", 2, {kSteps}, {slow_step(1)});
  ASSERT_TRUE(job->await_step(2));
  const auto drained = job->verb("drain", {"--rank", "0"});
  EXPECT_EQ(drained.exit_code, 0) << drained.errors;
  EXPECT_TRUE(job->await_events("left"));
  EXPECT_EQ(job->digest(), quiet_);
  EXPECT_TRUE(job->events("lost worker").empty());
  EXPECT_EQ(job->events("admitted").size(), 3u);
}

TEST_F(Operator, AWorkerThatIsToldToGoIsDrained) {
  const auto job =
      job_->start("told", 2, {kSteps, "parallel.strategy=zero2", "parallel.backups=1"});
  ASSERT_TRUE(job->await_step(2));
  ASSERT_EQ(::kill(job->workers().at(1), SIGTERM), 0);
  EXPECT_TRUE(job->await_events("left"));
  EXPECT_EQ(job->digest(), quiet_);
  EXPECT_TRUE(job->events("lost worker").empty());
}

TEST_F(Operator, ADrainedNodeHasNoWorkersAnyMore) {
  const auto job = job_->start("node", 2, {kSteps}, {"CRATON_NODES=2"});
  ASSERT_TRUE(job->await_step(2));
  const auto drained = job->verb("drain", {"--node", "node-1", "--deadline", "60"});
  EXPECT_EQ(drained.exit_code, 0) << drained.errors;
  EXPECT_TRUE(job->await_events("left"));
  const auto status = job->verb("status");
  EXPECT_EQ(status.output.find("node-1"), std::string::npos) << status.output;
  expect_refused(job->verb("drain", {"--node", "node-7"}), "no worker runs on node node-7");
  EXPECT_EQ(job->digest(), quiet_);
}

TEST_F(Operator, TerminationSavesAndResumeGoesOn) {
  const auto job = job_->start("stopped", 2, {kSteps});
  ASSERT_TRUE(job->await_step(3));
  job->signal(SIGTERM);
  const auto result = job->finish();
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(job->result()["stopped"], true);
  EXPECT_NE(job->verb("status").output.find("stopped"), std::string::npos);
  job->resume();
  EXPECT_EQ(job->digest(), quiet_);
  EXPECT_GE(job->result()["resumed_from_step"], 3);
  EXPECT_NE(job->verb("status").output.find("finished"), std::string::npos);
  expect_refused(job->verb("resume"), "has finished all its 40 steps");
}

TEST_F(Operator, RefusesWhatCannotBe) {
  const auto job =
      job_->start("asked", 2, {kSteps, "parallel.min_workers=2", "parallel.max_workers=6"});
  ASSERT_TRUE(job->await_step(2));
  expect_refused(job->verb("scale", {"--workers", "9"}), "cannot share the 8 micro-batches");
  expect_refused(job->verb("scale", {"--workers", "7"}), "more than max_workers (6)");
  expect_refused(job->verb("scale", {"--workers", "1"}), "fewer than min_workers (2)");
  expect_refused(job->verb("drain", {"--rank", "5"}), "has no rank 5; its ranks are 0 to 1");
  expect_refused(job_->program().run({"status", "asket"}), "did you mean 'asked'?");
  expect_refused(job_->train("asked", 2, {kSteps}), "a job runs there");
  EXPECT_EQ(job->digest(), quiet_);
  expect_refused(job->verb("scale", {"--workers", "2"}), "asked does not run: finished");
  const auto top = job->verb("top", {"--once"});
  EXPECT_EQ(top.exit_code, 0) << top.errors;
  for (const char* words : {"data wait", "asked", "40 of 40", "finished"})
    EXPECT_NE(top.output.find(words), std::string::npos) << top.output;
  EXPECT_NE(job_->program().run({"top", "--once"}).output.find("no job runs"), std::string::npos);
  const auto jobs = job_->program().run({"jobs"});
  EXPECT_NE(jobs.output.find("asked"), std::string::npos) << jobs.output;
}

}  // namespace
}  // namespace craton::tests
