// Each sample number is used exactly once per step, whoever is lost; the callbacks of the user's
// code tell the same story.

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "craton/checkpoint/checkpoint.h"
#include "tests/process/ledger_job.h"

namespace craton::tests {
namespace {

constexpr int64_t kSamples = 16;  // of a step

class Ledger : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    job_ = new LedgerJob;
    quiet_ = job_->start("quiet", 1, {})->digest();
  }
  static void TearDownTestSuite() { delete job_; }

  static inline LedgerJob* job_ = nullptr;
  static inline std::string quiet_;
};

TEST_F(Ledger, OfAQuietRunHasEachSampleOnce) {
  for (const std::string strategy : {"ddp", "zero2", "zero3"}) {
    const std::string name = "quiet-" + strategy;
    EXPECT_EQ(job_->start(name, 3, {"parallel.strategy=" + strategy})->digest(), quiet_);
    job_->expect_each_once(name, LedgerJob::kSteps, kSamples);
    job_->expect_computed_once(name, LedgerJob::kSteps, kSamples);
  }
}

// Among them the first step and the last two.
TEST_F(Ledger, HasEachSampleOnceWhoeverIsLost) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"zero1", "compute.after:rank=1:step=1:kill"},
      {"zero2", "reduce.collect:rank=0:step=6:kill"},
      {"zero1", "commit.after:rank=2:step=7:kill"},
      {"ddp", "commit.sent:rank=1:step=15:kill"},
      {"zero1", "store.after_ack:rank=1:step=16:kill"},
      {"zero3", "gather.sent:rank=1:step=3:kill"},
      {"fsdp", "reduce.send:rank=0:step=9:kill"}};
  for (const auto& [strategy, fault] : cases) {
    const std::string name = "lost-" + strategy + "-" + fault.substr(0, fault.find(':'));
    const int backups = strategy == "ddp" ? 0 : 1;
    const auto job = job_->start(
        name, 3, {"parallel.strategy=" + strategy, "parallel.backups=" + std::to_string(backups)},
        {"CRATON_FAULTS=" + fault});
    EXPECT_EQ(job->digest(), quiet_) << name;
    EXPECT_GE(job->count("lost worker"), 1u) << name << ": nothing was lost";
    job_->expect_each_once(name, LedgerJob::kSteps, kSamples);
  }
}

TEST_F(Ledger, TheStrategiesThatKeepSumsComputeOnlyWhatWasLost) {
  // Rank 1 of 4 dies when its two micro-batches are computed; the others keep theirs.
  const auto job = job_->start("kept", 4, {"parallel.strategy=zero1", "parallel.backups=1"},
                               {"CRATON_FAULTS=reduce.send:rank=1:step=5:kill"});
  EXPECT_EQ(job->digest(), quiet_);
  size_t computed = 0;
  for (const auto& [process, ledger] : job_->read("kept")) computed += ledger.computed.size();
  EXPECT_EQ(computed, static_cast<size_t>(LedgerJob::kSteps * kSamples + 4));
}

TEST_F(Ledger, CallbacksSeeALossAndTheJoinOfAReplacement) {
  const std::string name = "callbacks";
  const auto job =
      job_->start(name, 2, {"parallel.strategy=ddp"},
                  {"CRATON_FAULTS=compute.after:rank=1:step=3:kill; " + job_->hold(name, 5)});
  ASSERT_TRUE(job->await_events("admitted", 3));
  job_->release(name, 5);
  EXPECT_EQ(job->digest(), quiet_);
  std::vector<std::vector<std::string>> stories;
  for (const auto& [process, ledger] : job_->read(name)) stories.push_back(ledger.changes);
  using testing::ElementsAre;
  EXPECT_THAT(stories, testing::UnorderedElementsAre(
                           ElementsAre("after 1 0 2 0", "before 2 false", "after 2 0 1 2",
                                       "before 3 true", "after 3 0 2 1"),
                           ElementsAre("after 1 1 2 0"), ElementsAre("after 3 1 2 0")));
}

// Training goes on while a checkpoint is written, and changes all that the checkpoint is a copy of.
TEST_F(Ledger, ACheckpointIsThatOfItsStepWhateverTrainingDoesMeanwhile) {
  const std::string name = "beside", file = job_->hold_file(name, 2).string();
  const auto passes = [&](const LiveJob& job, int64_t step) {
    float value = -1;
    checkpoint::CheckpointReader(job.folder() / "checkpoints" / fmt::format("step-{:08}", step))
        .read(checkpoint::StateKind::kParameter, "passes", 0, {&value, 1});
    return value;
  };
  const auto job = job_->start(name, 1, {"checkpoint.every=2", "checkpoint.keep=100"},
                               {"CRATON_FAULTS=checkpoint.write:occurrence=2:hold=" + file});
  // Those of step 4 are held until step 5 is done; step 6 waits for them.
  ASSERT_TRUE(job->await_step(5));
  job_->release(name, 2);
  EXPECT_EQ(job->digest(), quiet_);
  const float per_step = (passes(*job, 16) - passes(*job, 2)) / 14;
  EXPECT_EQ(per_step, 8);
  EXPECT_EQ(passes(*job, 4) - passes(*job, 2), 2 * per_step);
}

// Copies that differ and are each true to their own record: nobody can say who is right, so all are
// given up before one of them is written down for good.
TEST_F(Ledger, AFlippedBitThatNobodyCanBlameCostsStepsNotBits) {
  const auto job = job_->start(
      "flipped", 3, {"parallel.strategy=zero1", "parallel.backups=1", "checkpoint.every=4"},
      {"CRATON_FAULTS=apply.middle:rank=1:step=6:flip"});
  EXPECT_EQ(job->digest(), quiet_);
  EXPECT_EQ(job->count("loss"), 1u);
  EXPECT_GE(job_->program().read_json("runs/flipped/result.json")["lost_steps"], 1);
}

TEST_F(Ledger, AFlippedBitThatContradictsItsRecordCostsNothing) {
  const auto job = job_->start("changed", 3, {"parallel.strategy=zero1", "parallel.backups=1"},
                               {"CRATON_FAULTS=commit.before:rank=1:step=11:flip"});
  EXPECT_EQ(job->digest(), quiet_);
  const auto lost = job->events("lost worker");
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_THAT(lost[0]["text"].get<std::string>(), testing::HasSubstr("silent data corruption"));
  EXPECT_EQ(job_->program().read_json("runs/changed/result.json")["lost_steps"], 0);
}

}  // namespace
}  // namespace craton::tests
