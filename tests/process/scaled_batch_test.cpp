// Jobs whose batch follows their size. The size that each step had is all that the result depends
// on: whatever happened on the way, quiet runs that give each step the same size end with the same
// bits, and each sample belongs to one step.

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdio>
#include <numeric>

#include "tests/process/ledger_job.h"

namespace craton::tests {
namespace {

using testing::HasSubstr;

constexpr int64_t kSamplesOfAWorker = 4;  // in a step

/// Batches by step.
using Sizes = std::vector<int64_t>;

class ScaledBatch : public testing::Test {
 protected:
  static void SetUpTestSuite() { job_ = new LedgerJob; }
  static void TearDownTestSuite() { delete job_; }

  static std::unique_ptr<LiveJob> start(const std::string& name, int workers,
                                        std::vector<std::string> more = {},
                                        std::vector<std::string> environment = {}) {
    std::vector<std::string> overrides = {"elastic.batch=scale", "elastic.reference_workers=4",
                                          "elastic.learning_rate=linear",
                                          "train.schedule.kind=constant"};
    overrides.insert(overrides.end(), more.begin(), more.end());
    return job_->start(name, workers, overrides, std::move(environment));
  }

  /// From the job's metrics, which must tell one story: samples without a gap, and the learning
  /// rate of the batch.
  static Sizes sizes_of(const std::string& name) {
    Sizes sizes;
    int64_t seen = 0;
    for (const auto& line : LiveJob::metrics_of(job_->program().folder() / "runs" / name)) {
      const auto batch = line["batch"].get<int64_t>();
      EXPECT_EQ(line["step"], static_cast<int64_t>(sizes.size()) + 1) << name;
      EXPECT_EQ(line["samples_seen"], seen + batch) << name << ", step " << line["step"];
      EXPECT_DOUBLE_EQ(line["lr"].get<double>(), 1e-3 * static_cast<double>(batch) / 16);
      sizes.push_back(batch);
      seen += batch;
    }
    EXPECT_EQ(sizes.size(), static_cast<size_t>(LedgerJob::kSteps)) << name;
    return sizes;
  }

  /// What quiet runs end with, one for each size, each from the checkpoint of the one before.
  static std::string replay(const Sizes& sizes) {
    static std::map<Sizes, std::pair<std::string, std::string>> runs;  // name and digest
    std::string from = "none", digest;
    for (size_t begin = 0; begin < sizes.size();) {
      size_t end = begin;
      while (end < sizes.size() && sizes[end] == sizes[begin]) ++end;
      const auto [run, fresh] =
          runs.try_emplace(Sizes(sizes.begin(), sizes.begin() + static_cast<long>(begin) + 1));
      if (fresh) {
        run->second.first = "replay-" + std::to_string(runs.size());
        run->second.second =
            start(run->second.first, static_cast<int>(sizes[begin] / kSamplesOfAWorker),
                  {"checkpoint.every=1", "checkpoint.keep=20", "checkpoint.resume=" + from})
                ->digest();
      }
      char step[32];
      std::snprintf(step, sizeof(step), "step-%08zu", end);
      from =
          (job_->program().folder() / "runs" / run->second.first / "checkpoints" / step).string();
      digest = run->second.second;
      begin = end;
    }
    return digest;
  }

  /// The job has ended with what its sizes make, and each sample was used once.
  static Sizes expect_as_replayed(const std::string& name, const std::string& digest) {
    const Sizes sizes = sizes_of(name);
    job_->expect_each_once(name, sizes);
    EXPECT_EQ(digest, replay(sizes)) << name << ": " << testing::PrintToString(sizes);
    return sizes;
  }

  static void scale(LiveJob& job, int workers) {
    const auto scaled = job.verb("scale", {"--workers", std::to_string(workers)});
    EXPECT_EQ(scaled.exit_code, 0) << scaled.errors;
  }

  static inline LedgerJob* job_ = nullptr;
};

TEST_F(ScaledBatch, FollowsTheSizeOfTheJob) {
  const std::string name = "resized";
  const auto job = start(name, 2, {"parallel.strategy=zero1", "parallel.backups=1"},
                         {"CRATON_FAULTS=" + job_->hold(name, 4) + "; " + job_->hold(name, 9)});
  ASSERT_TRUE(job->await_step(3));
  scale(*job, 5);
  ASSERT_TRUE(job->await_events("ready", 5));
  job_->release(name, 4);
  ASSERT_TRUE(job->await_step(8));
  const auto last = job->metrics().back();
  const auto status = job->verb("status");
  EXPECT_THAT(status.output,
              HasSubstr(fmt::format("batch       {} samples, learning rate {:.2e}",
                                    last["batch"].get<int64_t>(), last["lr"].get<double>())));
  scale(*job, 1);
  job_->release(name, 9);
  const Sizes sizes = expect_as_replayed(name, job->digest());
  EXPECT_EQ(sizes.front(), 8);
  EXPECT_THAT(sizes, testing::Contains(20));
  EXPECT_EQ(sizes.back(), 4);
  job_->expect_computed_once(name, 1, std::accumulate(sizes.begin(), sizes.end(), int64_t{0}));
  const auto changes = job->events("batch");
  ASSERT_GE(changes.size(), 2u);
  EXPECT_THAT(changes.back()["text"].get<std::string>(), HasSubstr("of 4 samples instead of"));
}

// Who is lost, and when, makes no difference to the step in flight; those after it are smaller.
TEST_F(ScaledBatch, AStepKeepsItsBatchWhoeverIsLostInIt) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"ddp", "compute.after:rank=1:step=1:kill"},    {"zero1", "compute.after:rank=1:step=6:kill"},
      {"zero2", "reduce.collect:rank=0:step=6:kill"}, {"zero1", "commit.sent:rank=2:step=6:kill"},
      {"zero1", "apply.middle:rank=0:step=6:kill"},   {"ddp", "commit.before:rank=1:step=14:kill"}};
  for (const auto& [strategy, fault] : cases) {
    const std::string name = "lost-" + strategy + "-" + fault.substr(0, fault.find(':'));
    const int backups = strategy == "ddp" ? 0 : 1;
    const auto job = start(
        name, 3, {"parallel.strategy=" + strategy, "parallel.backups=" + std::to_string(backups)},
        {"CRATON_FAULTS=" + fault});
    const Sizes sizes = expect_as_replayed(name, job->digest());
    EXPECT_GE(job->count("lost worker"), 1u) << name << ": nothing was lost";
    const int64_t step = std::stoll(fault.substr(fault.find("step=") + 5));
    EXPECT_TRUE(std::all_of(sizes.begin(), sizes.begin() + step, [](auto n) { return n == 12; }))
        << name << ": " << testing::PrintToString(sizes);
    // When all others had done it, it was the next step that was in flight.
    EXPECT_EQ(sizes[static_cast<size_t>(step) + 1], 8) << name;
  }
}

TEST_F(ScaledBatch, GrowsAgainWithTheReplacement) {
  const std::string name = "replaced";
  const auto job = start(name, 3, {"parallel.strategy=zero2", "parallel.backups=1"},
                         {"CRATON_FAULTS=compute.after:rank=1:step=3:kill; " + job_->hold(name, 7) +
                          "; commit.after:rank=2:step=12:kill"});
  ASSERT_TRUE(job->await_events("admitted", 4));
  job_->release(name, 7);
  const Sizes sizes = expect_as_replayed(name, job->digest());
  EXPECT_EQ(sizes[2], 12);
  EXPECT_EQ(sizes[3], 8);
  EXPECT_GT(std::count(sizes.begin() + 7, sizes.end(), 12), 0);
}

// With a spare at hand the size does not change, and neither do the bits.
TEST_F(ScaledBatch, ASpareKeepsTheBatch) {
  const std::string name = "spared";
  const auto job = start(
      name, 3, {"parallel.strategy=zero1", "parallel.backups=1", "parallel.spares=1"},
      {"CRATON_FAULTS=" + job_->hold(name, 2), "CRATON_JOINER_FAULTS=" + job_->hold(name, 2)});
  // Any of the four may be the spare: who is ready first is a member.
  ASSERT_TRUE(job->await_events("ready", 4));
  ASSERT_TRUE(job->await_step(1));
  ASSERT_EQ(::kill(job->events("admitted").at(1)["pid"].get<pid_t>(), SIGKILL), 0);
  ASSERT_TRUE(job->await_events("lost worker"));
  job_->release(name, 2);
  const std::string digest = job->digest();
  EXPECT_EQ(expect_as_replayed(name, digest), Sizes(16, 12));
  EXPECT_EQ(job->count("lost worker"), 1u);
  EXPECT_NE(digest, replay(Sizes(16, 8))) << "the size makes no difference";
}

TEST_F(ScaledBatch, OutlivesItsOperator) {
  const std::string name = "orphaned";
  const auto job =
      start(name, 3, {"parallel.strategy=zero1", "parallel.backups=1"},
            {"CRATON_FAULTS=compute.after:rank=1:step=4:kill; " + job_->hold(name, 8)});
  ASSERT_TRUE(job->await_step(7));
  job->kill_operator();
  const size_t before = job->count("generation");
  const auto resumed = job_->resume(name);
  ASSERT_TRUE(resumed->await(
      [&] { return resumed->count("operator") + resumed->count("generation") > before; }));
  job_->release(name, 8);
  const Sizes sizes = expect_as_replayed(name, resumed->digest());
  EXPECT_EQ(sizes[3], 12);
  EXPECT_EQ(sizes[4], 8);
  EXPECT_EQ(sizes[7], 8);
}

// Beyond redundancy: steps that are computed again have the size that the job has by then.
TEST_F(ScaledBatch, AfterALossTheCheckpointSaysWhereToGoOn) {
  const std::string name = "restored";
  const auto job =
      start(name, 2, {"parallel.strategy=zero1", "checkpoint.every=4"},
            {"CRATON_FAULTS=" + job_->hold(name, 6) + "; compute.after:rank=1:step=7:kill"});
  ASSERT_TRUE(job->await(
      [&] { return std::filesystem::exists(job->folder() / "checkpoints/step-00000004"); }));
  job_->release(name, 6);
  const std::string digest = job->digest();
  EXPECT_EQ(job->count("loss"), 1u);
  const Sizes sizes = sizes_of(name);
  EXPECT_EQ(sizes[3], 8);
  EXPECT_EQ(sizes[4], 4);
  EXPECT_EQ(digest, replay(sizes));
}

TEST_F(ScaledBatch, IsOfTheSizeThatTheRecipeWasWrittenFor) {
  start("written", 2)->digest();
  const auto other = job_->program().run(
      {"train", "ledger.yaml", "--workers", "1", "name=written", "elastic.batch=scale",
       "elastic.learning_rate=linear", "train.schedule.kind=constant"},
      {"CRATON_WORKER=" + CratonProgram::path_of("ledger_worker")});
  EXPECT_NE(other.exit_code, 0);
  EXPECT_THAT(other.errors, HasSubstr("its batch is that of 4 workers, and this recipe's that of "
                                      "1; to go on with another number of workers set "
                                      "elastic.reference_workers=4"));
}

}  // namespace
}  // namespace craton::tests
