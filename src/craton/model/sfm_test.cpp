#include "craton/model/sfm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "craton/base/error.h"
#include "craton/model/mask.h"

namespace craton::model {
namespace {

SfmSettings small() {
  SfmSettings s;
  s.window = {4, 6, 8};
  s.patch = {2, 2, 4};
  s.dim = 16;
  s.depth = 2;
  s.heads = 2;
  s.decoder_dim = 8;
  s.decoder_depth = 1;
  s.decoder_heads = 2;
  return s;
}

Batch batch_of(const SfmSettings& s, std::vector<int64_t> samples,
               torch::Dtype type = torch::kFloat) {
  Batch batch;
  std::vector<torch::Tensor> windows;
  for (const int64_t sample : samples) {
    torch::manual_seed(1000 + sample);
    windows.push_back(torch::randn(s.window, type));
  }
  batch.input = torch::stack(windows);
  batch.sample_numbers = std::move(samples);
  batch.seed = 3;
  return batch;
}

std::vector<torch::Tensor> gradients(Sfm& model, const Batch& batch) {
  return torch::autograd::grad({model.loss(batch)}, model.parameters());
}

std::string error_of(const std::string& yaml) {
  try {
    const auto settings = recipe::Settings::parse(yaml, "r.yaml");
    SfmSettings::read(settings);
    settings.finish();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

class FiniteDifferences : public testing::TestWithParam<std::tuple<Positions, bool>> {};

TEST_P(FiniteDifferences, EveryParameter) {
  SfmSettings s = small();
  std::tie(s.positions, s.qk_norm) = GetParam();
  Sfm model(s, 1);
  model.to(torch::kDouble);
  {
    torch::NoGradGuard no_grad;
    torch::manual_seed(2);
    for (auto& p : model.parameters()) p.add_(torch::randn_like(p), 0.05);
  }
  const Batch batch = batch_of(s, {1, 2}, torch::kDouble);
  const auto analytic = gradients(model, batch);
  torch::NoGradGuard no_grad;
  const double step = 1e-5;
  size_t index = 0;
  for (const auto& entry : model.named_parameters()) {
    torch::Tensor flat = entry.value().view(-1);
    for (int64_t probe = 0; probe < 4; ++probe) {
      const int64_t i = (probe * 7919 + 13) % flat.numel();
      const double at = flat[i].item<double>();
      flat[i] = at + step;
      const double above = model.loss(batch).item<double>();
      flat[i] = at - step;
      const double below = model.loss(batch).item<double>();
      flat[i] = at;
      EXPECT_NEAR(analytic[index].view(-1)[i].item<double>(), (above - below) / (2 * step), 1e-7)
          << entry.key() << "[" << i << "]";
    }
    ++index;
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, FiniteDifferences,
                         testing::Combine(testing::Values(Positions::kSinCos, Positions::kRotary),
                                          testing::Bool()));

TEST(Sfm, LossStartsNearThatOfPredictingZero) {
  SfmSettings s = small();
  Sfm model(s, 1);
  Batch batch = batch_of(s, {1, 2, 3, 4});
  batch.training = false;
  const float loss = model.loss(batch).item<float>();
  EXPECT_GT(loss, 0.8);
  EXPECT_LT(loss, 3);
  torch::NoGradGuard no_grad;
  model.named_parameters()["head_weight"].zero_();
  EXPECT_NEAR(model.loss(batch).item<float>(), 15.0 / 16, 1e-5);
}

TEST(Sfm, SameBitsEveryTimeAndForEveryInstance) {
  const SfmSettings s = small();
  Sfm a(s, 7), b(s, 7), c(s, 8);
  const Batch batch = batch_of(s, {5, 6, 9});
  EXPECT_TRUE(torch::equal(a.loss(batch), b.loss(batch)));
  const auto ga = gradients(a, batch);
  a.loss(batch_of(s, {1, 2}));  // no call leaves a trace
  const auto gb = gradients(a, batch);
  for (size_t i = 0; i < ga.size(); ++i) EXPECT_TRUE(torch::equal(ga[i], gb[i]));
  EXPECT_FALSE(torch::equal(a.loss(batch), c.loss(batch)));
}

TEST(Sfm, TheBatchDoesNotReachASample) {
  const SfmSettings s = small();
  Sfm model(s, 7);
  model.to(torch::kDouble);
  const auto loss = [&](std::vector<int64_t> samples) {
    return model.loss(batch_of(s, std::move(samples), torch::kDouble)).item<double>();
  };
  EXPECT_NEAR(loss({5, 6, 9}), (loss({5}) + loss({6}) + loss({9})) / 3, 1e-13);
  EXPECT_NEAR(loss({5, 6, 9}), loss({9, 5, 6}), 1e-13);
  // The mask belongs to the sample number: the same window under another number has another mask.
  Batch renumbered = batch_of(s, {5}, torch::kDouble);
  renumbered.sample_numbers[0] = 77;
  EXPECT_GT(std::abs(model.loss(renumbered).item<double>() - loss({5})), 1e-6);
}

TEST(Sfm, HiddenSamplesDoNotReachThePrediction) {
  const SfmSettings s = small();
  Sfm model(s, 7);
  Batch batch = batch_of(s, {5, 6});
  const Reconstruction before = model.reconstruct(batch);
  EXPECT_EQ(before.mask.sum(1)[0].item<int64_t>(), masked_count(12, s.mask_ratio));
  torch::Tensor hidden = torch::zeros_like(batch.input);
  const torch::Tensor ids = torch::arange(12).expand({2, 12}).contiguous();
  scatter_patches(before.mask.unsqueeze(-1).expand({2, 12, 16}).to(torch::kFloat), model.grid(),
                  ids, hidden);
  batch.input = torch::where(hidden.eq(1), torch::full_like(batch.input, 1e6), batch.input);
  const Reconstruction after = model.reconstruct(batch);
  EXPECT_TRUE(torch::equal(before.prediction, after.prediction));
}

TEST(Sfm, ReconstructionKeepsWhatIsVisible) {
  const SfmSettings s = small();
  Sfm model(s, 7);
  const Batch batch = batch_of(s, {5, 6, 7});
  torch::Tensor mask = torch::zeros({3, 12}, torch::kBool);
  mask[0][3] = true;
  mask[0][8] = true;
  mask[2].fill_(true);
  const Reconstruction r = model.reconstruct(batch, mask);
  EXPECT_TRUE(torch::equal(r.prediction[1], batch.input[1]));
  EXPECT_EQ(r.prediction[2].abs().max().item<float>(), 0);  // nothing is known
  EXPECT_EQ((r.prediction[0] != batch.input[0]).sum().item<int64_t>(), 2 * 16);
  EXPECT_TRUE(torch::isfinite(r.prediction).all().item<bool>());
  // Both ways of hiding the same patches are one computation.
  const Reconstruction own = model.reconstruct(batch_of(s, {5}));
  const Reconstruction same = model.reconstruct(batch_of(s, {5}), own.mask);
  EXPECT_TRUE(torch::equal(own.prediction, same.prediction));
}

TEST(Sfm, TruthAmplitudeGivesTheTruthsMeanAndDeviation) {
  const SfmSettings s = small();
  Sfm model(s, 7);
  const Batch batch = batch_of(s, {5});
  {
    torch::NoGradGuard no_grad;
    model.named_parameters()["head_weight"].zero_();  // predicts the mean
  }
  const Reconstruction r = model.reconstruct(batch, {}, Amplitude::kTruth);
  const torch::Tensor ids = torch::arange(12).expand({1, 12}).contiguous();
  const torch::Tensor truth = gather_patches(batch.input, model.grid(), ids);
  const torch::Tensor got = gather_patches(r.prediction, model.grid(), ids);
  const torch::Tensor hidden = r.mask[0].nonzero().view(-1);
  EXPECT_TRUE(torch::allclose(got[0].index_select(0, hidden),
                              truth[0].index_select(0, hidden).mean(-1, true).expand({-1, 16}),
                              1e-5, 1e-5));
}

TEST(Sfm, EmbedGivesOneFeaturePerPatch) {
  const SfmSettings s = small();
  Sfm model(s, 7);
  const torch::Tensor features = model.embed(batch_of(s, {5, 6}).input);
  EXPECT_EQ(features.sizes(), (std::vector<int64_t>{2, 12, 16}));
  EXPECT_FALSE(features.requires_grad());
  EXPECT_TRUE(torch::allclose(features[1], model.embed(batch_of(s, {6}).input)[0], 1e-4, 1e-5));
}

TEST(Sfm, ADeadWindowIsALegalStep) {
  const SfmSettings s = small();
  Sfm model(s, 7);
  Batch batch = batch_of(s, {5, 6});
  batch.input.zero_();
  EXPECT_EQ(model.loss(batch).item<float>(), 0);
  for (const auto& g : gradients(model, batch)) {
    EXPECT_TRUE(torch::isfinite(g).all().item<bool>());
    EXPECT_EQ(g.abs().max().item<float>(), 0);
  }
  // One dead window of two halves the gradient of the other and changes nothing else.
  Batch half = batch_of(s, {5, 6});
  half.input[1].zero_();
  EXPECT_NEAR(model.loss(half).item<float>(), model.loss(batch_of(s, {5})).item<float>() / 2, 1e-5);
}

TEST(Sfm, FiniteForAnyMaskRatioAndForHugeSamples) {
  for (const double ratio : {1e-9, 0.5, 1 - 1e-9}) {
    SfmSettings s = small();
    s.mask_ratio = ratio;
    Sfm model(s, 7);
    Batch batch = batch_of(s, {5, 6});
    EXPECT_TRUE(std::isfinite(model.loss(batch).item<float>())) << ratio;
    batch.input.mul_(1e4);
    for (const auto& g : gradients(model, batch)) {
      EXPECT_TRUE(torch::isfinite(g).all().item<bool>()) << ratio;
    }
  }
}

TEST(Sfm, ANotANumberInAVisiblePatchReachesTheLoss) {
  const SfmSettings s = small();
  Sfm model(s, 7);
  Batch batch = batch_of(s, {5});
  batch.input.fill_(std::numeric_limits<float>::quiet_NaN());
  EXPECT_TRUE(std::isnan(model.loss(batch).item<float>()));  // so that the step can be skipped
}

TEST(Sfm, GradientDescentLearnsAPattern) {
  SfmSettings s = small();
  s.mask_ratio = 0.5;
  Sfm model(s, 7);
  torch::optim::AdamW optimizer(model.parameters(), torch::optim::AdamWOptions(1e-2));
  Batch batch;  // two plane waves
  batch.input = torch::empty({2, 4, 6, 8});
  for (int64_t i = 0; i < batch.input.numel(); ++i) {
    const auto z = static_cast<float>(i / 48 % 4), y = static_cast<float>(i / 8 % 6);
    const auto x = static_cast<float>(i % 8);
    batch.input.data_ptr<float>()[i] = std::sin(0.9f * x + (i < 192 ? 0.4f : -0.5f) * y + 0.3f * z);
  }
  batch.training = false;
  float first = 0, last = 0;
  for (int64_t step = 0; step < 200; ++step) {
    batch.sample_numbers = {2 * step, 2 * step + 1};
    optimizer.zero_grad();
    const torch::Tensor loss = model.loss(batch);
    loss.backward();
    optimizer.step();
    last = loss.item<float>();
    if (step == 0) first = last;
  }
  EXPECT_LT(last, 0.5 * std::min(first, 1.0f));
}

TEST(Sfm, InitialValuesDependOnSeedAndNameOnly) {
  torch::Tensor a = torch::empty({200, 100}), b = torch::empty({200, 100}, torch::kDouble);
  init_normal(a, 0.5, 3, "x");
  init_normal(b, 0.5, 3, "x");
  EXPECT_TRUE(torch::equal(a, b.to(torch::kFloat)));
  EXPECT_LE(a.abs().max().item<float>(), 1.0f);
  EXPECT_NEAR(a.std().item<float>(), 0.5 * 0.8796, 0.01);  // deviation of the cut normal
  EXPECT_NEAR(a.mean().item<float>(), 0, 0.01);
  init_normal(b, 0.5, 3, "y");
  EXPECT_FALSE(torch::equal(a, b.to(torch::kFloat)));
}

TEST(Sfm, DecayLeavesVectorsAlone) {
  Sfm model(small(), 1);
  for (const auto& entry : model.named_parameters()) {
    const bool matrix =
        entry.key().ends_with("weight") && entry.key().find("norm") == std::string::npos;
    EXPECT_EQ(model.decays(entry.key(), entry.value()), matrix) << entry.key();
  }
}

TEST(Sfm, FlopsCountTheMatrices) {
  SfmSettings s = small();
  Sfm model(s, 1);
  // 3 visible and 9 masked tokens of 12; dim 16, hidden 64; decoder 8, hidden 32; patches of 16
  // samples.
  const double encoder = 3 * 2.0 * (4 * 256 + 2 * 16 * 64) + 4.0 * 9 * 16;
  // Keys and values of all tokens, queries, projection and MLP of the masked ones only.
  const double decoder = 12 * 2.0 * 2 * 64 + 9 * 2.0 * (2 * 64 + 2 * 8 * 32) + 4.0 * 12 * 9 * 8;
  EXPECT_DOUBLE_EQ(model.forward_flops_per_sample(),
                   2 * encoder + decoder + 2.0 * 3 * 16 * (16 + 8) + 2.0 * 9 * 8 * 16);
}

TEST(Sfm, FlopsCountWhatTheDecoderAttendsTo) {
  SfmSettings s = small();
  const double full = Sfm(s, 1).forward_flops_per_sample();
  s.decoder_attention = DecoderAttention::kCross;
  // Keys and values of the 3 visible tokens instead of all 12.
  EXPECT_DOUBLE_EQ(Sfm(s, 1).forward_flops_per_sample(), full - 9 * 2.0 * 2 * 64 - 4.0 * 9 * 9 * 8);
  s.decoder_attention = DecoderAttention::kWindow;
  s.decoder_window = {1, 3, 1};
  // Everything of all 12 tokens, against 3 of them each.
  EXPECT_DOUBLE_EQ(Sfm(s, 1).forward_flops_per_sample(),
                   full + 3 * 2.0 * (2 * 64 + 2 * 8 * 32) - 4.0 * 12 * 9 * 8 + 4.0 * 12 * 3 * 8);
}

TEST(Sfm, WindowsOfAnotherShapeAreCutByTheSamePatch) {
  for (const Positions positions : {Positions::kRotary, Positions::kSinCos}) {
    SfmSettings s = small();
    s.positions = positions;
    SfmSettings larger = s;
    larger.window = {8, 6, 4};
    Sfm model(s, 1), other(larger, 1);  // the same weights: they follow from seed and name
    const Batch batch = batch_of(larger, {1});
    EXPECT_EQ(model.loss(batch).item<float>(), other.loss(batch).item<float>());
    EXPECT_TRUE(
        torch::equal(model.reconstruct(batch).prediction, other.reconstruct(batch).prediction));
    EXPECT_EQ(model.grid_of(batch.input).tokens(), other.grid().tokens());
    EXPECT_EQ(model.loss(batch_of(s, {1})).item<float>(),
              Sfm(s, 1).loss(batch_of(s, {1})).item<float>());
  }
}

TEST(Sfm, AWindowThatThePatchDoesNotDivideIsAnErrorThatNamesBoth) {
  Sfm model(small(), 1);
  Batch batch = batch_of(small(), {1});
  batch.input = torch::zeros({1, 4, 6, 9});
  try {
    model.loss(batch);
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(),
                testing::HasSubstr("that patches of [2, 2, 4] divide, found windows of [4, 6, 9]"));
  }
}

TEST(SfmSettings, ReadsARecipe) {
  const auto settings = recipe::Settings::parse(
      "kind: sfm\nwindow: [256, 128]\npatch: [16, 8]\npositions: rotary\nqk_norm: true\ndim: 64\n"
      "heads: 4\ndecoder_heads: 2\ndecoder_dim: 32\nmask_ratio: 0.6\n",
      "r.yaml");
  const auto model = create_model(settings, 1);
  settings.finish();
  EXPECT_EQ(model->tokens_per_sample(), 256);
  EXPECT_TRUE(std::dynamic_pointer_cast<Sfm>(model)->settings().qk_norm);
}

TEST(SfmSettings, ErrorsNameLineKeyFoundAndExpected) {
  using testing::HasSubstr;
  EXPECT_THAT(error_of("dim: 10\nheads: 3"),
              HasSubstr("r.yaml:2: heads: must divide dim (10), found 3"));
  EXPECT_THAT(error_of("window: [8, 8]\npatch: [3, 8]"),
              HasSubstr("[8, 8] on each axis, found [3, 8]"));
  EXPECT_THAT(error_of("window: [8]\npatch: [3]"), HasSubstr("2 or 3 extents, found 1"));
  EXPECT_THAT(error_of("window: [8, 8]\npatch: [8, 8]"),
              HasSubstr("2 to 16777216 patches, found 1"));
  EXPECT_THAT(error_of("patch: [0, 8, 8]"), HasSubstr("must divide"));
  EXPECT_THAT(error_of("window: [99999999, 8, 8]"), HasSubstr("between 1 and 65536"));
  EXPECT_THAT(error_of("decoder_attention: none"),
              HasSubstr("expected one of full, cross, window"));
  EXPECT_THAT(error_of("decoder_window: [4, 4, 4]"),
              HasSubstr("decoder_window: goes with decoder_attention window, found full"));
  EXPECT_THAT(error_of("decoder_attention: window\ndecoder_window: [4, 4]"),
              HasSubstr("as many extents as the window, [32, 64, 64], found [4, 4]"));
  EXPECT_THAT(error_of("decoder_attention: window\ndecoder_window: [4, 4, 0]"),
              HasSubstr("between 1 and 65536, found 0"));
  EXPECT_THAT(error_of("mask_ratio: 1"), HasSubstr("between 0 and 1, found 1"));
  EXPECT_THAT(error_of("dim: 1000000000"), HasSubstr("between 1 and 32768"));
  EXPECT_THAT(error_of("positions: rotary\ndim: 15\nheads: 3"),
              HasSubstr("rotary positions need an even"));
  EXPECT_THAT(error_of("mask_ration: 0.5"), HasSubstr("mask_ratio"));
}

TEST(Registry, ListsTheKindsItKnows) {
  try {
    create_model(recipe::Settings::parse("kind: bert", "r.yaml"), 1);
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("sfm"));
    EXPECT_THAT(e.what(), testing::HasSubstr("bert"));
  }
}

TEST(Registry, TakesAModelOfOnesOwn) {
  register_model("own", [](const recipe::Settings& settings, uint64_t seed) {
    SfmSettings s;
    s.dim = settings.integer("width", 8) * 6;
    return std::make_shared<Sfm>(s, seed);
  });
  const auto settings = recipe::Settings::parse("kind: own\nwidth: 5", "r.yaml");
  EXPECT_EQ(std::dynamic_pointer_cast<Sfm>(create_model(settings, 1))->settings().dim, 30);
  settings.finish();
}

}  // namespace
}  // namespace craton::model
