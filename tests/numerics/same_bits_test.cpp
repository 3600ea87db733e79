// P1: strategies, numbers of workers, transports, and a save and resume in between all end with the
// same bits.

#include <gtest/gtest.h>

#include "tests/craton_program.h"

namespace craton::tests {
namespace {

constexpr const char* kRecipe = R"(
name: tiny
seed: 11
data:
  volumes: [{uri: survey.mdio}]
  window: [16, 16, 16]
  augment: {flip: true, gain: 0.2, noise: 0.1}
model:
  kind: sfm
  patch: [4, 4, 4]
  mask_ratio: 0.5
  dim: 32
  depth: 2
  heads: 2
  decoder_dim: 32
  decoder_depth: 1
  decoder_heads: 2
train:
  steps: 4
  global_batch: 8
  micro_batch: 1
  optimizer: {lr: 1.0e-3}
  validate_every: 2
  validation_samples: 4
parallel: {max_workers: 8, bucket_bytes: 128KiB}
checkpoint: {every: 0}
)";

class SameBits : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    program_ = new CratonProgram;
    const auto made =
        program_->run({"volume", "synth", "survey.mdio", "--shape", "48,64,64", "--seed", "3"});
    ASSERT_EQ(made.exit_code, 0) << made.errors;
    program_->write("tiny.yaml", kRecipe);
    quiet_ = train("quiet", 1, {});
  }
  static void TearDownTestSuite() { delete program_; }

  static std::string train(const std::string& name, int workers,
                           std::vector<std::string> overrides) {
    std::vector<std::string> arguments = {"train", "tiny.yaml", "--workers",
                                          std::to_string(workers), "name=" + name};
    arguments.insert(arguments.end(), overrides.begin(), overrides.end());
    const auto result = program_->run(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    const std::string digest = state_digest(result.output);
    EXPECT_EQ(digest.size(), 64u);
    const auto json = program_->read_json("runs/" + name + "/result.json");
    EXPECT_EQ(json["state_sha256"], digest);
    return digest;
  }

  static inline CratonProgram* program_ = nullptr;
  static inline std::string quiet_;
};

TEST_F(SameBits, ForEachStrategyNumberOfWorkersAndTransport) {
  for (const std::string transport : {"shared_memory", "tcp"}) {
    for (const std::string strategy : {"ddp", "zero1", "zero2"}) {
      for (int workers : {1, 2, 3, 4}) {
        const std::string name = strategy + "-" + std::to_string(workers) + "-" + transport;
        EXPECT_EQ(train(name, workers,
                        {"parallel.strategy=" + strategy, "parallel.transport=" + transport}),
                  quiet_)
            << name;
      }
    }
  }
}

TEST_F(SameBits, AnotherSeedIsAnotherState) { EXPECT_NE(train("other", 1, {"seed=12"}), quiet_); }

}  // namespace
}  // namespace craton::tests
