#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "craton/runtime/file.h"
#include "craton/runtime/process.h"

namespace craton::tests {

inline std::string craton_program() {
  const char* folder = std::getenv("CRATON_TEST_BIN");
  return (folder != nullptr ? std::filesystem::path(folder)
                            : std::filesystem::current_path() / "bin") /
         "craton";
}

/// Runs `craton` in a folder of its own.
class VolumeCli : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(craton_program()))
      GTEST_SKIP() << craton_program() << " is not built";
  }
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }

  runtime::ProgramResult craton(std::vector<std::string> arguments,
                                const std::string& faults = "") const {
    arguments.insert(arguments.begin(), craton_program());
    runtime::ProgramOptions options;
    if (!faults.empty()) options.environment.push_back("CRATON_FAULTS=" + faults);
    return runtime::run_program(arguments, options);
  }

  /// Refused: exit code 1, one line that holds `message`, and no output.
  void expect_refused(const std::vector<std::string>& arguments, const std::string& message) const {
    const auto result = craton(arguments);
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.errors, ::testing::HasSubstr(message));
    EXPECT_EQ(std::count(result.errors.begin(), result.errors.end(), '\n'), 1) << result.errors;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      EXPECT_EQ(entry.path().string().find("out"), std::string::npos) << entry.path();
    }
  }

  std::string write(const std::string& name, const std::vector<std::byte>& bytes) const {
    runtime::write_file_atomically(path(name), bytes);
    return path(name);
  }

  runtime::TemporaryDirectory folder_;
};

}  // namespace craton::tests
