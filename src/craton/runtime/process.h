#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace craton::runtime {

struct ProgramResult {
  int exit_code = -1;  ///< 128 + signal when a signal ended it
  std::string output, errors;
};

struct ProgramOptions {
  std::vector<std::string> environment;  ///< "NAME=value", on top of this process's
  std::string folder;                    ///< working folder; empty: this process's
  std::chrono::seconds timeout{600};     ///< then it is killed, and Error kTimeout
};

/// Runs a program to its end and keeps what it writes (up to 64 MiB). argv[0] is looked up in PATH
/// when it has no slash.
ProgramResult run_program(const std::vector<std::string>& argv, const ProgramOptions& options = {});

}  // namespace craton::runtime
