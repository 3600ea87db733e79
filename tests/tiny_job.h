#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/live_job.h"

namespace craton::tests {

/// A job that trains in a second or two: a synthetic survey and a tiny masked autoencoder, M = 8.
class TinyJob {
 public:
  TinyJob() {
    const auto made =
        program_.run({"volume", "synth", "survey.mdio", "--shape", "48,64,64", "--seed", "3"});
    EXPECT_EQ(made.exit_code, 0) << made.errors;
    program_.write("tiny.yaml", R"(
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
)");
  }

  const CratonProgram& program() const { return program_; }

  runtime::ProgramResult train(const std::string& name, int workers,
                               const std::vector<std::string>& overrides,
                               std::vector<std::string> environment = {}) const {
    return program_.run(arguments_of(name, workers, overrides), std::move(environment));
  }

  /// The same beside the test.
  std::unique_ptr<LiveJob> start(const std::string& name, int workers,
                                 const std::vector<std::string>& overrides,
                                 std::vector<std::string> environment = {}) const {
    return std::make_unique<LiveJob>(program_, name, arguments_of(name, workers, overrides),
                                     std::move(environment));
  }

  /// Trains, expects success, and returns the digest of the final state.
  std::string digest(const std::string& name, int workers,
                     const std::vector<std::string>& overrides,
                     std::vector<std::string> environment = {}) const {
    const auto result = train(name, workers, overrides, std::move(environment));
    EXPECT_EQ(result.exit_code, 0) << result.errors << result.output;
    const std::string digest = state_digest(result.output);
    EXPECT_EQ(digest.size(), 64u) << result.output;
    if (!digest.empty()) {
      EXPECT_EQ(program_.read_json("runs/" + name + "/result.json")["state_sha256"], digest);
    }
    return digest;
  }

 private:
  static std::vector<std::string> arguments_of(const std::string& name, int workers,
                                               const std::vector<std::string>& overrides) {
    std::vector<std::string> arguments = {"train", "tiny.yaml", "--workers",
                                          std::to_string(workers), "name=" + name};
    arguments.insert(arguments.end(), overrides.begin(), overrides.end());
    return arguments;
  }
  CratonProgram program_;
};

}  // namespace craton::tests
