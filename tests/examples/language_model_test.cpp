// A language model of one's own on token files: learns, keeps its bits on any number of workers and
// through a kill, and reads all kinds of files with or without the node's cache.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "craton/tokens/token_fixture.h"
#include "tests/craton_program.h"

namespace craton::tests {
namespace {

using tokens::fixture::FileBuilder;

constexpr const char* kExample = CRATON_SOURCE_DIR "/examples/language_model";

class LanguageModel : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    program_ = new CratonProgram;
    const std::string build = (program_->folder() / "build").string();
    worker_ = build + "/language-worker";
    const auto configured = runtime::run_program({"cmake", "-S", kExample, "-B", build,
                                                  "-DCMAKE_PREFIX_PATH=" CRATON_BUILD_DIR,
                                                  "-DCMAKE_BUILD_TYPE=Release"});
    ASSERT_EQ(configured.exit_code, 0) << configured.output << configured.errors;
    const auto built = runtime::run_program({"cmake", "--build", build});
    ASSERT_EQ(built.exit_code, 0) << built.output << built.errors;
    write_files();
  }
  static void TearDownTestSuite() { delete program_; }

  /// The same text in each format: a real one, a byte a token.
  static void write_files() {
    const std::string text = runtime::read_text(CRATON_SOURCE_DIR "/docs/recovery.md");
    const auto count = static_cast<int64_t>(text.size());
    FileBuilder raw, header, numbers;
    header.add(int32_t{20240520}).add(int32_t{1}).add(static_cast<int32_t>(count));
    for (int i = 3; i < 256; ++i) header.add(int32_t{0});
    for (const char c : text) {
      raw.add(static_cast<uint8_t>(c));
      header.add(static_cast<uint16_t>(static_cast<uint8_t>(c)));
      numbers.add(static_cast<int32_t>(static_cast<uint8_t>(c)));
    }
    const auto half = static_cast<int32_t>(count / 2);
    write("raw/text.bin", raw);
    write("llmc/text.bin", header);
    write("megatron/text.bin", numbers);
    write("megatron/text.idx",
          tokens::fixture::megatron_index({half, static_cast<int32_t>(count) - half}, 4, 4));
  }
  static void write(const std::string& name, const FileBuilder& file) {
    const auto path = program_->folder() / name;
    std::filesystem::create_directories(path.parent_path());
    runtime::write_file_atomically(path, file.bytes());
  }

  static runtime::ProgramResult train(const std::string& name, int workers,
                                      std::vector<std::string> more,
                                      std::vector<std::string> environment = {}) {
    std::vector<std::string> arguments = {"train",
                                          std::string(kExample) + "/bytes.yaml",
                                          "--workers",
                                          std::to_string(workers),
                                          "name=" + name,
                                          "train.steps=12",
                                          "train.validate_every=6",
                                          "train.validation_samples=4",
                                          "data.tokens.0.uri=raw/text.bin"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    environment.push_back("CRATON_WORKER=" + worker_);
    return program_->run(arguments, environment);
  }
  static std::string digest(const std::string& name, int workers, std::vector<std::string> more,
                            std::vector<std::string> environment = {}) {
    const auto result = train(name, workers, std::move(more), std::move(environment));
    EXPECT_EQ(result.exit_code, 0) << result.output << result.errors;
    return state_digest(result.output);
  }

  static inline CratonProgram* program_ = nullptr;
  static inline std::string worker_;
};

TEST_F(LanguageModel, LearnsAndKeepsItsBitsOnAnyWorkersThroughAKill) {
  const std::string one = digest("one", 1, {});
  EXPECT_EQ(one.size(), 64u);
  EXPECT_EQ(digest("two", 2, {"parallel.strategy=zero1", "parallel.backups=1"}), one);
  EXPECT_EQ(digest("killed", 2, {}, {"CRATON_FAULTS=commit.before:rank=1:step=5:kill"}), one);
  const auto result = program_->read_json("runs/one/result.json");
  EXPECT_LT(result["val_loss"].get<double>(), 4.5);  // 5.5 is knowing nothing
}

TEST_F(LanguageModel, EachFormatOfTheSameTextIsTheSameTraining) {
  const std::string raw = digest("raw", 1, {"data.working_set_bytes=64MiB"});
  const std::vector<std::string> formats = {"llmc/text.bin", "megatron/text"};
  for (size_t k = 0; k < formats.size(); ++k) {
    // Blocks are counted in bytes; a text this short is one block in all formats.
    EXPECT_EQ(digest("format-" + std::to_string(k), 2,
                     {"data.working_set_bytes=64MiB", "data.tokens.0.uri=" + formats[k],
                      "data.tokens.0.type=\"\"", "data.cache.path=cache"}),
              raw);
  }
}

TEST_F(LanguageModel, WhatCannotBeReadIsSaidWithTheFile) {
  const auto no_type = train("no-type", 1, {"data.tokens.0.type=\"\""});
  EXPECT_NE(no_type.exit_code, 0);
  EXPECT_THAT(no_type.errors, testing::HasSubstr("type: uint16"));
  const auto absent = train("absent", 1, {"data.tokens.0.uri=absent.bin"});
  EXPECT_NE(absent.exit_code, 0);
  EXPECT_THAT(absent.errors, testing::HasSubstr("absent.bin"));
  const auto foreign = train("foreign", 1, {"data.vocabulary=100"});
  EXPECT_NE(foreign.exit_code, 0);
  EXPECT_THAT(foreign.errors, testing::HasSubstr("data.vocabulary"));
}

}  // namespace
}  // namespace craton::tests
