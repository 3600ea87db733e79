#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "craton/cluster/membership.h"
#include "craton/runtime/file.h"

namespace craton::control {

/// Who runs a job and how to reach it; `operator.json` in the job's folder while it runs.
struct OperatorAddress {
  std::string calls;  ///< of the operator's service, "unix:/path"
  int64_t pid = 0;
  std::string agents;  ///< where agents attach, "0.0.0.0:7077"; empty: all workers are its own

  bool operator==(const OperatorAddress&) const = default;
};
void write_operator_address(const std::filesystem::path& folder, const OperatorAddress& address);
/// Nothing when there is none, or none that can be read.
std::optional<OperatorAddress> read_operator_address(const std::filesystem::path& folder);

/// What the operator of a job has persisted; nothing when there was none. Error kCorrupt when it
/// cannot be read.
std::optional<cluster::LogRecord> read_operator_log(const std::filesystem::path& folder);
/// Durable on return.
void write_operator_log(const std::filesystem::path& folder, const cluster::LogRecord& record);

/// Only one operator works in a folder: a lock that ends with its process, however it ends.
class RunLock {
 public:
  /// Makes the folder. Error kAlreadyExists when another process holds it.
  explicit RunLock(const std::filesystem::path& folder);
  /// Somebody holds it.
  static bool held(const std::filesystem::path& folder);

 private:
  runtime::FileDescriptor file_;
};

/// JOB of the command line: the name of a folder in ./runs, or a folder. Error kNotFound names the
/// nearest.
std::filesystem::path find_job(const std::string& job);
/// All jobs in ./runs, by name.
std::vector<std::filesystem::path> list_jobs();

/// What a job's folder says about it without asking its operator.
struct JobOnDisk {
  std::string name;
  bool running = false;
  std::optional<cluster::LogRecord> log;
  int64_t last_step = 0;  ///< of metrics.jsonl
  int64_t steps = 0;      ///< of the recipe; 0: unknown
};
JobOnDisk inspect_job(const std::filesystem::path& folder);
/// "training", "finished", "failed: REASON", "interrupted", ...
std::string describe(const JobOnDisk& job);

}  // namespace craton::control
