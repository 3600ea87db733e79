// Tied, frozen, empty and unevenly dividing parameters through all strategies and sizes, against
// plain libtorch in one process.
#include <gtest/gtest.h>

#include "craton/checkpoint/checkpoint.h"
#include "tests/numerics/awkward_model.h"
#include "tests/tiny_job.h"

namespace craton::tests {
namespace {

constexpr int64_t kSteps = 3, kBatch = 12;

class AwkwardParameters : public testing::Test {
 protected:
  runtime::ProgramResult train(const std::string& name, const std::string& strategy, int workers,
                               std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"parallel.strategy=" + strategy, "data.validation_fraction=0"});
    return job_.train(name, workers, std::move(more),
                      {std::string("CRATON_WORKER=") + AWKWARD_WORKER});
  }

  AwkwardParameters() {
    job_.program().write("tiny.yaml", R"(
seed: 5
data: {volumes: [{uri: survey.mdio}], window: [16, 16, 16]}
model: {kind: awkward}
train:
  steps: 3
  global_batch: 12
  micro_batch: 1
  clip_norm: 0.05
  validate_every: 0
  optimizer: {lr: 0.01, betas: [0.9, 0.95], weight_decay: 0.1}
  schedule: {kind: constant}
parallel: {max_workers: 8, shards: 16, backups: 1}
checkpoint: {every: 0}
)");
  }

  /// The state after the last step, from the files.
  checkpoint::CheckpointReader saved(const std::string& name) const {
    return checkpoint::CheckpointReader(job_.program().folder() / "runs" / name);
  }

  TinyJob job_;
};

torch::Tensor parameter(const checkpoint::CheckpointReader& reader, const std::string& name) {
  const checkpoint::ParameterEntry* entry = reader.find(name);
  if (entry == nullptr) return {};
  torch::Tensor values = torch::empty(entry->shape);
  reader.read(checkpoint::StateKind::kParameter, name, 0,
              {values.data_ptr<float>(), static_cast<size_t>(values.numel())});
  return values;
}

/// The same training, written with libtorch's own optimizer, in double.
std::shared_ptr<AwkwardModel> reference() {
  const auto settings = recipe::Settings::parse("kind: awkward", "reference");
  auto model = std::make_shared<AwkwardModel>(settings, 5);
  model->to(torch::kDouble);
  const auto options = [](double decay) {
    return std::make_unique<torch::optim::AdamWOptions>(
        torch::optim::AdamWOptions(0.01).betas({0.9, 0.95}).weight_decay(decay));
  };
  auto named = model->named_parameters();
  std::vector<torch::Tensor> matrices = {named["embed.matrix"], named["layer.mix"]},
                             vectors = {named["layer.bias"], named["shift"]}, all = matrices;
  all.insert(all.end(), vectors.begin(), vectors.end());
  torch::optim::AdamW optimizer({{matrices, options(0.1)}, {vectors, options(0.0)}});
  for (int64_t step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    for (int64_t i = 0; i < kBatch; ++i) {  // one backward per sample: their gradients add up
      model::Batch batch;
      batch.seed = 5;
      batch.sample_numbers = {step * kBatch + i};
      (model->loss(batch) / kBatch).backward();
    }
    torch::nn::utils::clip_grad_norm_(all, 0.05);
    optimizer.step();
  }
  return model;
}

TEST_F(AwkwardParameters, EndWithOneDigestAndEqualPlainLibtorch) {
  std::string digest;
  for (const char* strategy : {"ddp", "zero1", "zero2", "zero3", "fsdp"}) {
    for (const int workers : {1, 2, 3, 4}) {
      const std::string name = strategy + std::to_string(workers);
      const auto result = train(name, strategy, workers);
      ASSERT_EQ(result.exit_code, 0) << result.errors;
      if (digest.empty()) digest = state_digest(result.output);
      EXPECT_EQ(state_digest(result.output), digest) << name;
    }
  }
  for (const char* strategy : {"ddp", "zero3", "fsdp"}) {
    const std::string name = std::string("again-") + strategy;
    const auto result = train(name, strategy, 2, {"train.activation_checkpointing=true"});
    ASSERT_EQ(result.exit_code, 0) << result.errors;
    EXPECT_EQ(state_digest(result.output), digest) << name;
  }
  const auto expected = reference();
  const auto start = AwkwardModel(recipe::Settings::parse("kind: awkward", "start"), 5);
  const auto reader = saved("zero33");
  for (const char* name : {"embed.matrix", "layer.mix", "layer.bias", "shift"}) {
    const torch::Tensor got = parameter(reader, name),
                        want = expected->named_parameters()[name].detach().to(torch::kFloat);
    ASSERT_TRUE(got.defined()) << name;
    EXPECT_LT((got - want).abs().max().item<float>(), 2e-5f) << name;
  }
  const torch::Tensor moved =
      (parameter(reader, "embed.matrix") - start.named_parameters()["embed.matrix"]).abs().amax(1);
  EXPECT_GT(moved.min().item<float>(), 0.001f) << "a row of the tied matrix was not trained";
}

TEST_F(AwkwardParameters, FrozenAndEmptyOnesAndBuffersAreSaved) {
  ASSERT_EQ(train("saved", "zero3", 3).exit_code, 0);
  const auto reader = saved("saved");
  EXPECT_TRUE(torch::equal(parameter(reader, "layer.scale"), torch::full({9}, 0.75f)));
  ASSERT_NE(reader.find("layer.scale"), nullptr);
  EXPECT_FALSE(reader.find("layer.scale")->trained);
  ASSERT_NE(reader.find("layer.unused"), nullptr);
  EXPECT_EQ(reader.find("layer.unused")->shape, (std::vector<int64_t>{0, 7}));
  ASSERT_NE(reader.find("places"), nullptr);
  EXPECT_EQ(reader.find("places")->dtype, "I64");
  std::vector<int64_t> places(12);
  reader.read_bytes("places", 0, std::as_writable_bytes(std::span(places)));
  EXPECT_EQ(places[11], 11);
  EXPECT_EQ(reader.find("head.matrix"), nullptr) << "a tied parameter is saved once";
}

TEST_F(AwkwardParameters, GoOnFromACheckpointWithAnotherStrategyAndSize) {
  const auto whole = train("whole", "ddp", 1, {"checkpoint.every=2"});
  ASSERT_EQ(whole.exit_code, 0) << whole.errors;
  std::filesystem::remove_all(job_.program().folder() / "runs/whole/checkpoints/step-00000003");
  const auto resumed = train("whole", "zero3", 3, {"checkpoint.every=2"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.errors;
  EXPECT_NE(resumed.output.find("goes on after step 2"), std::string::npos) << resumed.output;
  EXPECT_EQ(state_digest(resumed.output), state_digest(whole.output));
}

}  // namespace
}  // namespace craton::tests
