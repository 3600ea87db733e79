// The operator is killed, workers stop moving, spares step in: the job goes on with the same bits.

#include <algorithm>
#include <thread>

#include "tests/tiny_job.h"

namespace craton::tests {
namespace {

constexpr const char* kSteps = "train.steps=40";

class Takeover : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    job_ = new TinyJob;
    quiet_ = job_->digest("quiet", 1, {kSteps});
  }
  static void TearDownTestSuite() { delete job_; }

  /// The process has ended; perhaps nobody has taken its exit status yet.
  static bool is_gone(pid_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string text;
    if (!std::getline(file, text)) return true;
    const size_t state = text.rfind(')') + 2;
    return text.compare(state, 1, "Z") == 0 || text.compare(state, 1, "X") == 0;
  }
  static void await_end_of(const std::vector<pid_t>& processes) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    for (pid_t pid : processes) {
      while (!is_gone(pid) && std::chrono::steady_clock::now() < deadline)
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      EXPECT_TRUE(is_gone(pid)) << pid;
    }
  }

  static inline TinyJob* job_ = nullptr;
  static inline std::string quiet_;
};

TEST_F(Takeover, ResumeTakesLiveWorkersOver) {
  const auto job =
      job_->start("killed", 2, {kSteps, "parallel.strategy=zero1", "parallel.backups=1"});
  ASSERT_TRUE(job->await_step(3));
  const std::vector<pid_t> before = job->workers();
  job->kill_operator();
  EXPECT_NE(job->verb("status").output.find("interrupted"), std::string::npos);
  job->resume();
  EXPECT_EQ(job->digest(), quiet_);
  EXPECT_EQ(job->result()["lost_steps"], 0);
  EXPECT_TRUE(job->events("lost worker").empty());
  EXPECT_FALSE(job->events("operator").empty()) << "nothing was taken over";
  EXPECT_EQ(job->events("ready").size(), 2u) << "a worker was started anew";
  await_end_of(before);
}

TEST_F(Takeover, WithoutWorkersResumeGoesOnFromTheCheckpoint) {
  const auto job = job_->start("all-killed", 2, {kSteps, "checkpoint.every=2"});
  ASSERT_TRUE(job->await_step(6));
  job->kill_operator();
  for (pid_t pid : job->workers()) ::kill(pid, SIGKILL);
  await_end_of(job->workers());
  job->resume();
  EXPECT_EQ(job->digest(), quiet_);
  EXPECT_GE(job->result()["resumed_from_step"], 2);
}

TEST_F(Takeover, ASurvivorOfTheOperatorHealsTheRest) {
  const auto job = job_->start("half-killed", 2, {kSteps});
  ASSERT_TRUE(job->await_step(3));
  const std::vector<pid_t> workers = job->workers();
  job->kill_operator();
  ASSERT_EQ(::kill(workers.at(0), SIGKILL), 0);
  await_end_of({workers.at(0)});
  job->resume();
  EXPECT_EQ(job->digest(), quiet_);
  EXPECT_EQ(job->result()["lost_steps"], 0);
}

TEST_F(Takeover, WorkersThatNobodyTakesOverEnd) {
  const auto job = job_->start("orphans", 2, {"train.steps=4000", "recovery.orphan_seconds=1"});
  ASSERT_TRUE(job->await_step(2));
  const std::vector<pid_t> workers = job->workers();
  job->kill_operator();
  await_end_of(workers);
}

TEST_F(Takeover, AnOperatorThatDiesBetweenLogAndWordIsTakenOver) {
  // Its third record is that of the generation without the lost worker.
  const auto job = job_->start("persisted", 3, {kSteps},
                               {"CRATON_FAULTS=commit.before:rank=1:step=4:kill; "
                                "operator.after_persist:occurrence=3:kill"});
  EXPECT_NE(job->finish().exit_code, 0);
  job->resume();
  EXPECT_EQ(job->digest(), quiet_);
  EXPECT_EQ(job->result()["lost_steps"], 0);
}

TEST_F(Takeover, AWorkerThatStandsStillIsReplaced) {
  const auto job = job_->start(
      "stands", 3,
      {kSteps, "parallel.strategy=zero1", "parallel.backups=1", "recovery.hang_seconds=3",
       "recovery.report_seconds=1", "recovery.lease_seconds=1"});
  ASSERT_TRUE(job->await_step(3));
  const pid_t stopped = job->workers().at(1);
  ASSERT_EQ(::kill(stopped, SIGSTOP), 0);
  EXPECT_TRUE(job->await_events("lost worker"));
  EXPECT_EQ(job->digest(), quiet_);
  EXPECT_EQ(job->result()["lost_steps"], 0);
  await_end_of({stopped});
}

TEST_F(Takeover, ASpareStepsInAtOnce) {
  const auto job = job_->start("spare", 2, {kSteps, "parallel.spares=1"});
  ASSERT_TRUE(job->await_events("ready", 3));
  ASSERT_TRUE(job->await_step(2));
  const auto status = job->verb("status");
  EXPECT_NE(status.output.find("spare"), std::string::npos) << status.output;
  ASSERT_EQ(::kill(job->workers().at(0), SIGKILL), 0);
  EXPECT_EQ(job->digest(), quiet_);
  EXPECT_EQ(job->events("lost worker").size(), 1u);
  for (const auto& step : job->metrics()) EXPECT_EQ(step["workers"], 2) << step;
}

}  // namespace
}  // namespace craton::tests
