// A job changes its size at step boundaries: the same bits, each sample once, nothing computed
// twice; and the same bits when workers die meanwhile.

#include <random>

#include "tests/process/ledger_job.h"

namespace craton::tests {
namespace {

/// Asked for while `step` waits to be computed. Newcomers get ready one by one: each step from
/// `step` on waits for the next of them to be admitted.
struct Change {
  int64_t step;
  int workers;
};

class Resize : public testing::Test {
 protected:
  static constexpr int64_t kStepsPerChange = 3;  // no walk grows by more at once

  static void SetUpTestSuite() { job_ = new LedgerJob; }
  static void TearDownTestSuite() { delete job_; }

  static std::vector<std::string> batch(int64_t micro_batches) {
    return {"train.global_batch=" + std::to_string(job_->samples_per_step(micro_batches))};
  }

  static std::string quiet(int64_t micro_batches) {
    static std::map<int64_t, std::string> known;
    std::string& digest = known[micro_batches];
    if (digest.empty())
      digest =
          job_->start("quiet-" + std::to_string(micro_batches), 1, batch(micro_batches))->digest();
    return digest;
  }

  /// Asks for another size while rank 0 is held, and lets it go as the generations are announced.
  static void change_size(LiveJob& job, const Change& change) {
    ASSERT_TRUE(change.step == 1 ? job.await_events("decision") : job.await_step(change.step - 1))
        << job.name();
    size_t seen = job.count("generation");
    const auto asked = job.verb("scale", {"--workers", std::to_string(change.workers)});
    EXPECT_EQ(asked.exit_code, 0) << asked.errors;
    const std::string all =
        std::to_string(change.workers) + " of " + std::to_string(change.workers) + " workers";
    for (int64_t k = 0, reached = 0; k < kStepsPerChange; ++k) {
      if (!reached) {
        ASSERT_TRUE(job.await_events("generation", seen + 1)) << job.name();
        const auto generations = job.events("generation");
        seen = generations.size();
        reached = generations.back()["text"].get<std::string>().starts_with(all);
      }
      job_->release(job.name(), change.step + k);
    }
  }

  /// Runs a job through all changes to its end.
  static std::unique_ptr<LiveJob> walk(const std::string& name, const std::string& strategy,
                                       int start, int64_t micro_batches,
                                       const std::vector<Change>& changes,
                                       const std::string& faults = "") {
    std::string armed = faults;
    for (const Change& change : changes) {
      for (int64_t k = 0; k < kStepsPerChange; ++k)
        armed += "; " + job_->hold(name, change.step + k);
    }
    auto overrides = batch(micro_batches);
    overrides.push_back("parallel.strategy=" + strategy);
    overrides.push_back(std::string("parallel.backups=") + (strategy == "ddp" ? "0" : "1"));
    auto job = job_->start(name, start, overrides, {"CRATON_FAULTS=" + armed});
    for (const Change& change : changes) change_size(*job, change);
    EXPECT_EQ(job->digest(), quiet(micro_batches)) << name;
    EXPECT_EQ(job->result()["lost_steps"], 0) << name;
    job_->expect_each_once(name, LedgerJob::kSteps, job_->samples_per_step(micro_batches));
    return job;
  }

  /// The same, and nothing is computed in vain.
  static void walk_undisturbed(const std::string& name, const std::string& strategy, int start,
                               int64_t micro_batches, const std::vector<Change>& changes) {
    const auto job = walk(name, strategy, start, micro_batches, changes);
    job_->expect_computed_once(name, LedgerJob::kSteps, job_->samples_per_step(micro_batches));
    EXPECT_EQ(job->count("lost worker"), 0u) << name;
    std::set<int> sizes, wanted = {start};
    for (const auto& step : job->metrics()) sizes.insert(step["workers"].get<int>());
    for (const Change& change : changes) wanted.insert(change.workers);
    for (int size : wanted) EXPECT_TRUE(sizes.contains(size)) << name << " never had " << size;
    EXPECT_EQ(job->metrics().back()["workers"], changes.back().workers) << name;
  }

  static inline LedgerJob* job_ = nullptr;
};

TEST_F(Resize, OneTwoThreeFourThreeOne) {
  const std::vector<Change> changes = {{1, 2}, {4, 3}, {7, 4}, {10, 3}, {13, 1}};
  for (const std::string strategy : {"ddp", "zero1", "zero2", "zero3"})
    walk_undisturbed("matrix-" + strategy, strategy, 1, 8, changes);
}

TEST_F(Resize, RandomWalks) {
  std::mt19937 random(7);
  for (const int64_t micro_batches : {8, 12}) {
    for (const std::string strategy : {"ddp", "zero1", "fsdp"}) {
      std::vector<Change> changes;
      int size = 2;
      for (int64_t step = 1; step + kStepsPerChange <= LedgerJob::kSteps; step += kStepsPerChange) {
        size = 1 + (size + static_cast<int>(random() % 3)) % 4;  // one of the three others
        changes.push_back({step, size});
      }
      walk_undisturbed("walk-" + strategy + "-" + std::to_string(micro_batches), strategy, 2,
                       micro_batches, changes);
    }
  }
}

// A worker dies in the step whose boundary is waited for, at the boundary, or while shards move.
TEST_F(Resize, WithAKillInTheMiddle) {
  const std::vector<std::pair<std::string, Change>> cases = {
      {"commit.before:rank=1:step=5", {5, 4}},
      {"report.after:rank=1:step=5", {5, 4}},
      {"transfer.chunk:rank=1", {5, 4}},
      {"store.after_ack:rank=1:step=5", {5, 2}},
      {"report.before:rank=1:step=5", {5, 2}}};
  for (const auto& [fault, change] : cases) {
    const std::string name =
        "killed-" + fault.substr(0, fault.find(':')) + "-" + std::to_string(change.workers);
    const auto job = walk(name, "zero1", 3, 8, {change}, fault + ":kill");
    EXPECT_GE(job->count("lost worker"), 1u) << name << ": nothing was lost";
  }
}

}  // namespace
}  // namespace craton::tests
