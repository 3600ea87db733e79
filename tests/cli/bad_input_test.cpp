// Bad input gets one clear line, a non-zero exit, and leaves nothing behind.

#include <sys/mount.h>

#include "tests/tiny_job.h"

namespace craton::tests {
namespace {

class BadInput : public testing::Test {
 protected:
  static void SetUpTestSuite() { job_ = new TinyJob; }
  static void TearDownTestSuite() { delete job_; }

  /// One line on stderr that contains `message`.
  static void expect_refused(const runtime::ProgramResult& result, const std::string& message) {
    EXPECT_NE(result.exit_code, 0);
    EXPECT_LT(result.exit_code, 128) << "a crash";
    EXPECT_EQ(std::count(result.errors.begin(), result.errors.end(), '\n'), 1) << result.errors;
    EXPECT_NE(result.errors.find(message), std::string::npos) << result.errors;
  }

  static std::filesystem::path folder() { return job_->program().folder(); }
  static inline TinyJob* job_ = nullptr;
};

TEST_F(BadInput, ATextFileAsSegy) {
  std::string text;
  for (int line = 0; line < 400; ++line)
    text += "This is no seismic file, line " + std::to_string(line) + ".\n";
  job_->program().write("letter.sgy", text);
  expect_refused(job_->program().run({"volume", "ingest", "letter.sgy", "letter.mdio"}),
                 "letter.sgy");
  EXPECT_FALSE(std::filesystem::exists(folder() / "letter.mdio"));
}

TEST_F(BadInput, ATypoInARecipe) {
  expect_refused(job_->train("typo", 1, {"train.stepz=5"}), "train.stepz: unknown key");
  job_->program().write("typo.yaml", "name: typo\ntrain:\n  step: 3\n");
  const auto result = job_->program().run({"train", "typo.yaml"});
  expect_refused(result, "typo.yaml:3: train.step: unknown key");
  EXPECT_NE(result.errors.find("steps"), std::string::npos) << result.errors;
}

TEST_F(BadInput, ATypoInTheModel) {
  expect_refused(job_->train("typo", 2, {"model.dept=5"}), "command line: model.dept: unknown key");
  std::string text = runtime::read_text(folder() / "tiny.yaml");
  text.replace(text.find("mask_ratio"), 10, "mask_ration");
  job_->program().write("masks.yaml", text);
  expect_refused(job_->program().run({"train", "masks.yaml"}),
                 "masks.yaml:11: model.mask_ration: ");
}

TEST_F(BadInput, AMissingVolume) {
  expect_refused(job_->train("missing", 2, {"data.volumes.0.uri=nowhere.mdio"}), "nowhere.mdio");
  EXPECT_FALSE(std::filesystem::exists(folder() / "runs/missing/result.json"));
}

TEST_F(BadInput, AMissingRecipe) {
  expect_refused(job_->program().run({"train", "nothing.yaml"}), "nothing.yaml");
}

TEST_F(BadInput, ZeroWorkers) { EXPECT_NE(job_->train("zero", 0, {}).exit_code, 0); }

TEST_F(BadInput, MoreWorkersThanMicroBatches) {
  expect_refused(job_->train("many", 9, {"parallel.max_workers=16"}), "micro-batches");
}

TEST_F(BadInput, AWindowLargerThanTheVolume) {
  expect_refused(job_->train("window", 2, {"data.window=[64, 64, 64]"}), "window");
}

TEST_F(BadInput, AModelThatDoesNotFitInMemory) {
  expect_refused(job_->train("huge", 1, {"model.dim=32768", "model.depth=64"}), "memory");
}

TEST_F(BadInput, AFullDisk) {
  const std::filesystem::path disk = folder() / "small-disk";
  std::filesystem::create_directories(disk);
  if (::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=256k") != 0)
    GTEST_SKIP() << "mounting a small file system needs root";
  expect_refused(
      job_->program().run({"volume", "synth", "small-disk/survey.mdio", "--shape", "64,64,256"}),
      "No space left on device");
  EXPECT_TRUE(std::filesystem::is_empty(disk));
  expect_refused(job_->train("full", 1, {"run.folder=small-disk/run", "checkpoint.every=1"}),
                 "No space left on device");
  EXPECT_FALSE(std::filesystem::exists(disk / "run/result.json"));
  ::umount(disk.c_str());
}

}  // namespace
}  // namespace craton::tests
