#pragma once

#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "craton/runtime/file.h"
#include "craton/runtime/process.h"
#include "craton/runtime/running_program.h"

namespace craton::tests {

/// The built `craton` in CRATON_TEST_BIN, run in a folder of its own.
class CratonProgram {
 public:
  const std::filesystem::path& folder() const { return folder_.path(); }

  runtime::ProgramResult run(std::vector<std::string> arguments,
                             std::vector<std::string> environment = {}) const {
    arguments.insert(arguments.begin(), path_of("craton"));
    runtime::ProgramOptions options;
    options.folder = folder_.path().string();
    options.environment = std::move(environment);
    return runtime::run_program(arguments, options);
  }

  /// The same beside the test.
  std::unique_ptr<runtime::RunningProgram> start(std::vector<std::string> arguments,
                                                 std::vector<std::string> environment = {}) const {
    arguments.insert(arguments.begin(), path_of("craton"));
    runtime::ProgramOptions options;
    options.folder = folder_.path().string();
    options.environment = std::move(environment);
    return std::make_unique<runtime::RunningProgram>(arguments, options);
  }
  /// A built program.
  static std::string path_of(const std::string& name) {
    const char* bin = std::getenv("CRATON_TEST_BIN");
    return std::string(bin ? bin : "build/release/bin") + "/" + name;
  }

  void write(const std::string& name, const std::string& text) const {
    runtime::write_file_atomically(folder() / name, text);
  }
  nlohmann::json read_json(const std::string& name) const {
    return nlohmann::json::parse(runtime::read_text(folder() / name));
  }

 private:
  runtime::TemporaryDirectory folder_;
};

/// HEX of the line "state sha256 HEX" with which training ends; empty when there is none.
inline std::string state_digest(const std::string& output) {
  const std::string mark = "state sha256 ";
  const size_t at = output.rfind(mark);
  return at == std::string::npos ? "" : output.substr(at + mark.size(), 64);
}

}  // namespace craton::tests
