// `craton predict`: a short training, then what it makes of a volume with dead traces.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "craton/volume/volume.h"
#include "tests/craton_program.h"

namespace craton::tests {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr const char* kRecipe = R"(
name: tiny
data:
  volumes: [{uri: survey.mdio}]
  window: [16, 16, 32]
  dead_fraction_limit: 0.9
model: {kind: sfm, patch: [4, 4, 8], mask_ratio: 0.5, dim: 32, depth: 1, heads: 2,
        decoder_dim: 32, decoder_depth: 1, decoder_heads: 2}
train: {steps: 3, global_batch: 4, micro_batch: 2, validate_every: 0}
)";

constexpr const char* kLineRecipe = R"(
name: line
data:
  volumes: [{uri: line.mdio}]
  window: [32, 64]
  dead_fraction_limit: 0.9
model: {kind: sfm, patch: [8, 16], mask_ratio: 0.5, dim: 32, depth: 1, heads: 2,
        decoder_dim: 32, decoder_depth: 1, decoder_heads: 2}
train: {steps: 2, global_batch: 4, micro_batch: 2, validate_every: 0}
)";

class Predict : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    program_ = new CratonProgram;
    ASSERT_EQ(run({"volume", "synth", "survey.mdio", "--shape", "37,41,70", "--chunks", "16,24,32",
                   "--dead", "0.1", "--seed", "3"})
                  .exit_code,
              0);
    ASSERT_EQ(run({"volume", "synth", "line.mdio", "--shape", "90,130", "--dead", "0.1"}).exit_code,
              0);
    program_->write("tiny.yaml", kRecipe);
    program_->write("line.yaml", kLineRecipe);
    for (const std::string name : {"tiny", "line"}) {
      const auto trained = run({"train", name + ".yaml"});
      ASSERT_EQ(trained.exit_code, 0) << trained.errors;
    }
  }
  static void TearDownTestSuite() { delete program_; }

  static runtime::ProgramResult run(const std::vector<std::string>& arguments) {
    return program_->run(arguments);
  }
  static std::string path(const std::string& name) { return (program_->folder() / name).string(); }
  static bool exists(const std::string& name) { return fs::exists(program_->folder() / name); }

  static std::vector<float> samples(const volume::Volume& volume) {
    const auto shape = volume.info().shape();
    int64_t count = 1;
    for (const int64_t n : shape) count *= n;
    std::vector<float> out(static_cast<size_t>(count));
    volume.read(std::vector<int64_t>(shape.size(), 0), shape, out);
    return out;
  }

  /// Live samples are the input's to the bit, dead traces are live and finite and not empty.
  static void expect_filled(const std::string& input_name, const std::string& output_name) {
    const auto input = volume::open_volume(path(input_name)),
               output = volume::open_volume(path(output_name));
    ASSERT_EQ(output->info().shape(), input->info().shape());
    EXPECT_EQ(output->info().chunk_shape, input->info().chunk_shape);
    EXPECT_EQ(output->info().sample_type, input->info().sample_type);
    for (size_t d = 0; d < input->info().axes.size(); ++d) {
      EXPECT_EQ(output->info().axes[d].name, input->info().axes[d].name);
      EXPECT_EQ(output->info().axes[d].unit, input->info().axes[d].unit);
      EXPECT_EQ(output->info().axes[d].coordinates, input->info().axes[d].coordinates);
    }
    const auto before = samples(*input), after = samples(*output);
    const auto depth = static_cast<size_t>(input->info().shape().back());
    int64_t filled = 0;
    for (size_t trace = 0; trace < input->live().size(); ++trace) {
      ASSERT_EQ(output->live()[trace], 1) << trace;
      const auto first = static_cast<ptrdiff_t>(trace * depth);
      const std::span old(before.begin() + first, depth), now(after.begin() + first, depth);
      if (input->live()[trace] != 0) {
        ASSERT_EQ(std::memcmp(old.data(), now.data(), now.size_bytes()), 0) << trace;
        continue;
      }
      ++filled;
      double energy = 0;
      for (const float sample : now) {
        ASSERT_TRUE(std::isfinite(sample));
        energy += std::abs(sample);
      }
      EXPECT_GT(energy, 0) << trace;
    }
    EXPECT_GT(filled, 0);
  }

  /// One line of error that contains `text`, exit code 1, and neither a store nor parts of one.
  static void expect_refused(const std::vector<std::string>& arguments, const std::string& text) {
    const auto before = entries();
    const auto result = run(arguments);
    EXPECT_EQ(result.exit_code, 1) << result.errors;
    EXPECT_THAT(result.errors, HasSubstr(text));
    EXPECT_EQ(std::count(result.errors.begin(), result.errors.end(), '\n'), 1) << result.errors;
    EXPECT_EQ(result.output, "");
    EXPECT_EQ(entries(), before);
  }
  static std::vector<std::string> entries() {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(program_->folder()))
      names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }

  static inline CratonProgram* program_ = nullptr;
};

TEST_F(Predict, FillsDeadTracesAndLeavesLiveOnesAsTheyAre) {
  const auto result = run({"predict", "runs/tiny", "survey.mdio", "--out", "filled.mdio"});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.output, HasSubstr("traces filled"));
  EXPECT_EQ(std::count(result.output.begin(), result.output.end(), '\n'), 1);
  expect_filled("survey.mdio", "filled.mdio");
  const std::string png = runtime::read_text(program_->folder() / "filled.mdio.png");
  EXPECT_EQ(png.substr(1, 3), "PNG");
  EXPECT_THAT(volume::open_volume(path("filled.mdio"))->info().attributes,
              HasSubstr("\"checkpoint_step\":3"));
}

TEST_F(Predict, TheSameBitsWithAnotherNumberOfThreads) {
  std::vector<std::vector<float>> results;
  for (const std::string threads : {"1", "3"}) {
    const auto result = run({"predict", "runs/tiny", "survey.mdio", "--out", "bits.mdio",
                             "--threads", threads, "--replace"});
    ASSERT_EQ(result.exit_code, 0) << result.errors;
    results.push_back(samples(*volume::open_volume(path("bits.mdio"))));
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST_F(Predict, FillsALine) {
  const auto result =
      run({"predict", "runs/line/checkpoints", "line.mdio", "--out", "filled-line.mdio"});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  expect_filled("line.mdio", "filled-line.mdio");
  EXPECT_TRUE(exists("filled-line.mdio.png"));
}

TEST_F(Predict, FillsACubeSectionBySection) {
  const auto result =
      run({"predict", "runs/line", "survey.mdio", "--out", "sections.mdio", "--overlap", "0.25"});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  expect_filled("survey.mdio", "sections.mdio");
}

TEST_F(Predict, AMaskRatioReplacesLiveSamplesToo) {
  const auto result =
      run({"predict", "runs/tiny", "survey.mdio", "--out", "masked.mdio", "--mask-ratio", "0.6"});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.output, HasSubstr("60 % of each window"));
  const auto before = samples(*volume::open_volume(path("survey.mdio"))),
             after = samples(*volume::open_volume(path("masked.mdio")));
  size_t changed = 0;
  for (size_t n = 0; n < before.size(); ++n) {
    ASSERT_TRUE(std::isfinite(after[n]));
    changed += before[n] != after[n];
  }
  EXPECT_GT(changed, before.size() * 8 / 10);
  // Dead traces are predicted as ever.
  const auto live = volume::open_volume(path("masked.mdio"))->live();
  EXPECT_EQ(std::count(live.begin(), live.end(), 1), static_cast<int64_t>(live.size()));
}

TEST_F(Predict, EmbedsEachPatch) {
  const auto result =
      run({"predict", "runs/tiny", "survey.mdio", "--out", "features.zarr", "--embed"});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  const auto features = volume::open_volume(path("features.zarr"));
  EXPECT_EQ(features->info().shape(), (std::vector<int64_t>{9, 10, 8, 32}));
  EXPECT_EQ(features->info().axes.back().name, "feature");
  const auto values = samples(*features);
  // A norm ends the encoder: no patch has features that are all 0, also none at the edges.
  for (size_t patch = 0; patch < values.size(); patch += 32) {
    double size = 0;
    for (size_t k = 0; k < 32; ++k) size += std::abs(values[patch + k]);
    ASSERT_TRUE(std::isfinite(size)) << patch;
    ASSERT_GT(size, 1) << patch;
  }
  EXPECT_FALSE(exists("features.zarr.png"));
}

TEST_F(Predict, RefusesWhatCannotBeMeant) {
  expect_refused({"predict", "runs/none", "survey.mdio", "--out", "x.mdio"}, "no checkpoint");
  expect_refused({"predict", "runs/tiny", "none.mdio", "--out", "x.mdio"},
                 "no volume at none.mdio");
  expect_refused({"predict", "runs/tiny", "survey.mdio", "--out", "survey.mdio", "--replace"},
                 "is the volume itself");
  expect_refused({"predict", "runs/tiny", "line.mdio", "--out", "x.mdio"}, "2 axes");
  ASSERT_EQ(run({"volume", "synth", "small.mdio", "--shape", "12,64,64"}).exit_code, 0);
  expect_refused({"predict", "runs/tiny", "small.mdio", "--out", "x.mdio"}, "does not fit");
  for (const std::vector<std::string>& more : {std::vector<std::string>{}, {"--embed"}}) {
    std::vector<std::string> arguments = {"predict", "runs/tiny", "survey.mdio", "--out",
                                          "line.mdio"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    expect_refused(arguments, "line.mdio already exists; --replace overwrites it");
  }
}

}  // namespace
}  // namespace craton::tests
