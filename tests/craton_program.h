#pragma once

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "craton/runtime/file.h"
#include "craton/runtime/process.h"

namespace craton::tests {

/// The built `craton` in CRATON_TEST_BIN, run in a folder of its own.
class CratonProgram {
 public:
  const std::filesystem::path& folder() const { return folder_.path(); }

  runtime::ProgramResult run(std::vector<std::string> arguments,
                             std::vector<std::string> environment = {}) const {
    const char* bin = std::getenv("CRATON_TEST_BIN");
    arguments.insert(arguments.begin(), std::string(bin ? bin : "build/release/bin") + "/craton");
    runtime::ProgramOptions options;
    options.folder = folder_.path().string();
    options.environment = std::move(environment);
    return runtime::run_program(arguments, options);
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
