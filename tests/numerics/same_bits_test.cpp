// P1: strategies, numbers of workers, transports, and a save and resume in between all end with the
// same bits.

#include <map>

#include "tests/tiny_job.h"

namespace craton::tests {
namespace {

class SameBits : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    job_ = new TinyJob;
    quiet_ = job_->digest("quiet", 1, {});
  }
  static void TearDownTestSuite() { delete job_; }

  static inline TinyJob* job_ = nullptr;
  static inline std::string quiet_;
};

TEST_F(SameBits, ForEachStrategyNumberOfWorkersAndTransport) {
  const std::map<std::string, std::vector<int>> sizes = {{"shared_memory", {1, 2, 3, 4}},
                                                         {"tcp", {2, 3}}};
  for (const auto& [transport, numbers] : sizes) {
    for (const std::string strategy : {"ddp", "zero1", "zero2", "zero3", "fsdp"}) {
      for (int workers : numbers) {
        const std::string name = strategy + "-" + std::to_string(workers) + "-" + transport;
        EXPECT_EQ(
            job_->digest(name, workers,
                         {"parallel.strategy=" + strategy, "parallel.transport=" + transport}),
            quiet_)
            << name;
      }
    }
  }
}

TEST_F(SameBits, AfterSaveAndResumeWithAnotherNumberAndStrategy) {
  struct Half {
    int workers;
    std::string strategy;
  };
  const std::vector<std::pair<Half, Half>> cases = {{{4, "zero2"}, {1, "ddp"}},
                                                    {{1, "ddp"}, {3, "zero1"}},
                                                    {{2, "zero1"}, {4, "zero2"}},
                                                    {{4, "zero3"}, {2, "fsdp"}},
                                                    {{3, "fsdp"}, {1, "ddp"}}};
  for (const auto& [first, second] : cases) {
    const std::string name = "resume-" + first.strategy + "-" + second.strategy;
    EXPECT_EQ(job_->digest(name, first.workers,
                           {"parallel.strategy=" + first.strategy, "checkpoint.every=2"}),
              quiet_);
    // As if the first half had been the end of it.
    std::filesystem::remove_all(job_->program().folder() / "runs" / name / "checkpoints" /
                                "step-00000004");
    const auto resumed = job_->train(
        name, second.workers, {"parallel.strategy=" + second.strategy, "checkpoint.every=2"});
    EXPECT_EQ(resumed.exit_code, 0) << resumed.errors;
    EXPECT_NE(resumed.output.find("goes on after step 2"), std::string::npos) << resumed.output;
    EXPECT_EQ(resumed.output.find("step 2/4"), std::string::npos) << "step 2 was done twice";
    EXPECT_EQ(state_digest(resumed.output), quiet_) << name;
  }
}

TEST_F(SameBits, WithAnyBucketSize) {
  EXPECT_EQ(
      job_->digest("small-buckets", 2, {"parallel.bucket_bytes=64KiB", "parallel.strategy=zero2"}),
      quiet_);
  EXPECT_EQ(job_->digest("one-bucket", 2, {"parallel.bucket_bytes=64MiB"}), quiet_);
}

TEST_F(SameBits, WithParametersKeptUntilBackwardAndInHybridGroups) {
  EXPECT_EQ(
      job_->digest("kept", 3, {"parallel.strategy=fsdp", "parallel.reshard_after_forward=false"}),
      quiet_);
  EXPECT_EQ(job_->digest("groups", 4, {"parallel.strategy=zero3", "parallel.shard_group=2"}),
            quiet_);
}

TEST_F(SameBits, WithActivationsComputedAgainInBackward) {
  for (const std::string strategy : {"ddp", "zero3"}) {
    EXPECT_EQ(
        job_->digest("again-" + strategy, 2,
                     {"parallel.strategy=" + strategy, "train.activation_checkpointing=true"}),
        quiet_);
  }
}

TEST_F(SameBits, WithParametersInBf16WhateverTheStrategy) {
  const std::string bf16 = "train.param_dtype=bf16";
  const std::string rounded = job_->digest("bf16-one", 1, {bf16});
  EXPECT_NE(rounded, quiet_);
  for (const std::string strategy : {"ddp", "zero2", "zero3", "fsdp"})
    EXPECT_EQ(job_->digest("bf16-" + strategy, 3, {bf16, "parallel.strategy=" + strategy}), rounded)
        << strategy;
  EXPECT_EQ(
      job_->digest("bf16-tcp", 2, {bf16, "parallel.strategy=zero1", "parallel.transport=tcp"}),
      rounded);
  EXPECT_EQ(job_->digest("bf16-lost", 3, {bf16, "parallel.strategy=zero3", "parallel.backups=1"},
                         {"CRATON_FAULTS=apply.middle:rank=1:step=2:kill"}),
            rounded);
}

TEST_F(SameBits, AnotherSeedIsAnotherState) {
  EXPECT_NE(job_->digest("other", 1, {"seed=12"}), quiet_);
}

TEST_F(SameBits, ACheckpointOfAnotherRecipeIsRefused) {
  job_->digest("mixed", 1, {"checkpoint.every=2"});
  const auto result = job_->train("mixed", 1, {"seed=99"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.errors.find("was made by another recipe"), std::string::npos) << result.errors;
}

}  // namespace
}  // namespace craton::tests
