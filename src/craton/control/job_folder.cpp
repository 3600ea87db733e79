#include "craton/control/job_folder.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "craton/base/error.h"
#include "craton/protocol/messages.h"
#include "craton/recipe/nearest_name.h"
#include "craton/recipe/recipe.h"
#include "craton/results/metrics.h"

namespace craton::control {
namespace fs = std::filesystem;
namespace {

constexpr const char* kRuns = "runs";
constexpr const char* kAddressFile = "operator.json";
constexpr const char* kLogFile = "operator.log";
constexpr const char* kLockFile = "operator.lock";

bool is_job(const fs::path& folder) {
  std::error_code error;
  return fs::exists(folder / "recipe.yaml", error);
}

}  // namespace

void write_operator_address(const fs::path& folder, const OperatorAddress& address) {
  const nlohmann::ordered_json json = {
      {"calls", address.calls}, {"pid", address.pid}, {"agents", address.agents}};
  runtime::write_file_atomically(folder / kAddressFile, json.dump() + "\n");
}

std::optional<OperatorAddress> read_operator_address(const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(folder / kAddressFile, error)) return std::nullopt;
  try {
    const auto json = nlohmann::json::parse(runtime::read_text(folder / kAddressFile));
    return OperatorAddress{json.at("calls"), json.at("pid"), json.value("agents", "")};
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

std::optional<cluster::LogRecord> read_operator_log(const fs::path& folder) {
  const fs::path path = folder / kLogFile;
  if (!fs::exists(path)) return std::nullopt;
  try {
    return protocol::decode_log(runtime::read_text(path.string()));
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kCorrupt) throw;
    fail(ErrorCode::kCorrupt,
         "{} cannot be read: it is damaged, or of another version; give the job another name, or "
         "remove that file to go on from the newest checkpoint",
         path.string());
  }
}

void write_operator_log(const fs::path& folder, const cluster::LogRecord& record) {
  runtime::write_file_atomically((folder / kLogFile).string(), protocol::encode_log(record));
}

RunLock::RunLock(const fs::path& folder) {
  fs::create_directories(folder);
  const fs::path path = folder / kLockFile;
  file_ = runtime::FileDescriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!file_.valid()) fail_errno(fmt::format("cannot open {}", path.string()), errno);
  if (::flock(file_.get(), LOCK_EX | LOCK_NB) != 0) {
    const auto address = read_operator_address(folder);
    fail(ErrorCode::kAlreadyExists,
         "{} is in use: a job runs there{}; wait for its end, or give this one another name",
         folder.string(), address ? fmt::format(" (process {})", address->pid) : "");
  }
}

bool RunLock::held(const fs::path& folder) {
  const runtime::FileDescriptor file(::open((folder / kLockFile).c_str(), O_RDONLY | O_CLOEXEC));
  return file.valid() && ::flock(file.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

std::vector<fs::path> list_jobs() {
  std::vector<fs::path> jobs;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(kRuns, error)) {
    if (is_job(entry.path())) jobs.push_back(entry.path());
  }
  std::sort(jobs.begin(), jobs.end());
  return jobs;
}

fs::path find_job(const std::string& job) {
  const fs::path below = fs::path(kRuns) / job;
  for (const fs::path& folder : {below, fs::path(job)}) {
    if (!job.empty() && is_job(folder)) return folder;
  }
  std::vector<std::string> names;
  for (const fs::path& folder : list_jobs()) names.push_back(folder.filename().string());
  if (names.empty())
    fail(ErrorCode::kNotFound,
         "there is no job '{}': no job has run here (./runs is empty); give the folder of its run",
         job);
  const std::string nearest = recipe::nearest_name(job, names);
  fail(ErrorCode::kNotFound, "there is no job '{}'; {}", job,
       nearest.empty() ? std::string("`craton jobs` lists those of ./runs")
                       : fmt::format("did you mean '{}'?", nearest));
}

JobOnDisk inspect_job(const fs::path& folder) {
  JobOnDisk job;
  job.name = fs::weakly_canonical(folder).filename().string();
  job.running = RunLock::held(folder);
  try {
    job.log = read_operator_log(folder);
    if (fs::exists(folder / "metrics.jsonl")) {
      const auto metrics = results::read_metrics(folder / "metrics.jsonl");
      if (!metrics.empty()) job.last_step = metrics.back().step;
    }
    job.steps = recipe::Recipe::load((folder / "recipe.yaml").string()).train.steps;
  } catch (const Error&) {
    // A damaged folder still has a name and a lock.
  }
  return job;
}

std::string describe(const JobOnDisk& job) {
  using cluster::JobPhase;
  if (!job.log) return job.running ? "starting" : "not started";
  switch (job.log->phase) {
    case JobPhase::kFinished:
      return "finished";
    case JobPhase::kStopped:
      return "stopped";
    case JobPhase::kFailed:
    case JobPhase::kSuperseded:
      return "failed: " + job.log->reason;
    case JobPhase::kStarting:
      return job.running ? "starting" : "interrupted";
    default:
      return job.running ? "training" : "interrupted";
  }
}

}  // namespace craton::control
