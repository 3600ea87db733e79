// A callback of one's own, built against the package of this build tree: it hears a worker being
// lost and its replacement joining.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/live_job.h"

namespace craton::tests {
namespace {

constexpr const char* kExample = CRATON_SOURCE_DIR "/examples/elastic_callback";

TEST(ElasticCallback, WritesDownWhatHappens) {
  const CratonProgram program;
  const std::string build = (program.folder() / "build").string();
  const auto configured =
      runtime::run_program({"cmake", "-S", kExample, "-B", build,
                            "-DCMAKE_PREFIX_PATH=" CRATON_BUILD_DIR, "-DCMAKE_BUILD_TYPE=Release"});
  ASSERT_EQ(configured.exit_code, 0) << configured.output << configured.errors;
  const auto built = runtime::run_program({"cmake", "--build", build});
  ASSERT_EQ(built.exit_code, 0) << built.output << built.errors;

  ASSERT_EQ(program.run({"volume", "synth", "survey.mdio", "--shape", "48,64,64"}).exit_code, 0);
  program.write("job.yaml", R"(
name: job
data: {volumes: [{uri: survey.mdio}], window: [16, 16, 16]}
model: {kind: sfm, patch: [4, 4, 4], dim: 32, depth: 1, heads: 2, decoder_dim: 32, decoder_heads: 2}
train: {steps: 12, global_batch: 4, micro_batch: 1, validate_every: 0}
checkpoint: {every: 0}
)");
  const std::string folder = (program.folder() / "diaries").string(), hold = folder + "/go";
  std::filesystem::create_directories(folder);
  LiveJob job(
      program, "job", {"train", "job.yaml", "--workers", "2"},
      {"CRATON_WORKER=" + build + "/diary-worker", "DIARY_FOLDER=" + folder,
       "CRATON_FAULTS=compute.after:rank=1:step=2:kill; compute.before:rank=0:step=4:hold=" +
           hold});
  ASSERT_TRUE(job.await_events("admitted", 3));
  runtime::write_file_atomically(hold, "go");
  ASSERT_EQ(job.finish().exit_code, 0);
  std::string all;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    all += runtime::read_text(entry.path());
  using testing::HasSubstr;
  EXPECT_THAT(all, HasSubstr("after step 1: before generation 2: somebody was lost"));
  EXPECT_THAT(all, HasSubstr("rank 0 of 1, before 2"));
  EXPECT_THAT(all, HasSubstr("after step 4: before generation 3: planned"));
  EXPECT_THAT(all, HasSubstr("after step 4: rank 0 of 2, before 1"));
  EXPECT_THAT(all, HasSubstr("rank 1 of 2, before 0"));
}

}  // namespace
}  // namespace craton::tests
