// A model of one's own: built against the package of this build tree, known to recipes by its name,
// trained with the same bits on any number of workers.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/craton_program.h"

namespace craton::tests {
namespace {

constexpr const char* kExample = CRATON_SOURCE_DIR "/examples/custom_model";

TEST(CustomModel, BuildsTrainsAndKeepsItsBits) {
  const CratonProgram program;
  const std::string build = (program.folder() / "build").string();
  const auto configured =
      runtime::run_program({"cmake", "-S", kExample, "-B", build,
                            "-DCMAKE_PREFIX_PATH=" CRATON_BUILD_DIR, "-DCMAKE_BUILD_TYPE=Release"});
  ASSERT_EQ(configured.exit_code, 0) << configured.output << configured.errors;
  const auto built = runtime::run_program({"cmake", "--build", build});
  ASSERT_EQ(built.exit_code, 0) << built.output << built.errors;

  ASSERT_EQ(program.run({"volume", "synth", "survey.mdio", "--shape", "32,64,64"}).exit_code, 0);
  const std::vector<std::string> own = {"CRATON_WORKER=" + build + "/denoiser-worker"};
  const auto train = [&](int workers) {
    const std::string name = "denoiser-" + std::to_string(workers);
    return program.run(
        {"train", std::string(kExample) + "/denoiser.yaml", "--workers", std::to_string(workers),
         "name=" + name, "train.steps=12", "train.validate_every=6", "train.validation_samples=4"},
        own);
  };
  const auto one = train(1), two = train(2);
  ASSERT_EQ(one.exit_code, 0) << one.errors;
  ASSERT_EQ(two.exit_code, 0) << two.errors;
  EXPECT_EQ(state_digest(one.output).size(), 64u);
  EXPECT_EQ(state_digest(one.output), state_digest(two.output));
  EXPECT_EQ(program.read_json("runs/denoiser-2/result.json")["steps"], 12);

  // A typo in the model's own keys is found by the same rules as everywhere.
  const auto typo = program.run(
      {"train", std::string(kExample) + "/denoiser.yaml", "name=typo", "model.chanels=4"}, own);
  EXPECT_NE(typo.exit_code, 0);
  EXPECT_THAT(typo.errors, testing::HasSubstr("channels"));
  // The standard worker does not know the model and says which it knows.
  const auto unknown = program.run(
      {"train", std::string(kExample) + "/denoiser.yaml", "name=unknown"}, {"CRATON_WORKER="});
  EXPECT_NE(unknown.exit_code, 0);
  EXPECT_THAT(unknown.errors, testing::HasSubstr("sfm"));
}

}  // namespace
}  // namespace craton::tests
