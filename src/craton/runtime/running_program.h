#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "craton/runtime/file.h"
#include "craton/runtime/process.h"

namespace craton::runtime {

/// A program that runs beside this one, for tests and benchmarks that do something to it meanwhile.
/// What it writes is kept in memory. Killed when it is destroyed, and when this process ends.
class RunningProgram {
 public:
  /// As run_program; `options.timeout` is not looked at.
  explicit RunningProgram(const std::vector<std::string>& argv, const ProgramOptions& options = {});
  RunningProgram(const RunningProgram&) = delete;
  RunningProgram& operator=(const RunningProgram&) = delete;
  ~RunningProgram();

  pid_t pid() const { return pid_; }
  /// Processes that it has started and that have not ended, in the order of their start.
  std::vector<pid_t> children() const;
  void signal(int number) const;

  /// Waits for its end, at most `timeout`; nothing when it still runs then.
  std::optional<ProgramResult> wait(std::chrono::milliseconds timeout);

 private:
  pid_t pid_ = -1;
  FileDescriptor process_, output_, errors_;
  std::optional<ProgramResult> result_;
};

}  // namespace craton::runtime
