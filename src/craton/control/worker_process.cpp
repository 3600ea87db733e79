#include "craton/control/worker_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include "craton/base/error.h"
#include "craton/control/worker_environment.h"

namespace craton::control {
namespace fs = std::filesystem;
namespace {

std::string describe_end(int status) {
  if (WIFSIGNALED(status))
    return fmt::format("was killed by signal {} ({})", WTERMSIG(status),
                       ::strsignal(WTERMSIG(status)));
  return fmt::format("ended with exit code {}", WEXITSTATUS(status));
}

}  // namespace

WorkerProcess::WorkerProcess(const recipe::Recipe& recipe, const WorkerStart& start)
    : log_path_(start.log_path) {
  auto [channel, child_end] = runtime::MessageChannel::pair();
  const runtime::FileDescriptor page = runtime::make_progress_page();
  progress_ = runtime::map_progress_page(page.get());
  runtime::FileDescriptor log(
      ::open(log_path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!log.valid()) fail_errno(fmt::format("cannot create {}", log_path_), errno);
  // Who computes blocks twice has large activations and little memory.
  std::vector<std::string> environment = worker_environment(
      recipe.kernels, recipe.threads,
      recipe.train.activation_checkpointing ? FreedPages::kReturned : FreedPages::kKept);
  environment.insert(environment.end(), start.environment.begin(), start.environment.end());
  std::vector<char*> envp;
  for (std::string& entry : environment) envp.push_back(entry.data());
  envp.push_back(nullptr);
  const std::string fd = std::to_string(child_end.get()), number = std::to_string(start.number),
                    progress_fd = std::to_string(page.get()),
                    recipe_path = start.folder + "/recipe.yaml";
  const char* argv[] = {
      start.program.c_str(), "--recipe",      recipe_path.c_str(), "--agent-folder",
      start.folder.c_str(),  "--control-fd",  fd.c_str(),          "--number",
      number.c_str(),        "--progress-fd", progress_fd.c_str(), nullptr};
  pid_ = ::fork();
  if (pid_ < 0) fail_errno("cannot start a worker", errno);
  if (pid_ == 0) {
    ::dup2(log.get(), STDOUT_FILENO);
    ::dup2(log.get(), STDERR_FILENO);
    ::execve(start.program.c_str(), const_cast<char**>(argv), envp.data());
    ::_exit(127);
  }
  channel_ = std::move(channel);
  process_ = runtime::FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  if (!process_.valid()) fail_errno("cannot watch a worker", errno);
}

WorkerProcess::WorkerProcess(pid_t pid, std::string log_path)
    : log_path_(std::move(log_path)), pid_(pid) {
  process_ = runtime::FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  if (!process_.valid()) fail(ErrorCode::kPeerLost, "worker process {} is gone", pid_);
}

void WorkerProcess::connect(std::unique_ptr<runtime::MessageChannel> channel, int progress_fd) {
  const runtime::FileDescriptor page(
      ::open(fmt::format("/proc/{}/fd/{}", pid_, progress_fd).c_str(), O_RDONLY | O_CLOEXEC));
  if (progress_ != nullptr) runtime::unmap_progress_page(progress_);
  progress_ = runtime::map_progress_page(page.get());
  channel_ = std::move(channel);
}

WorkerProcess::~WorkerProcess() {
  if (progress_ != nullptr) runtime::unmap_progress_page(progress_);
  if (reaped_) return;
  kill();
  ::waitpid(pid_, nullptr, 0);  // at once when an earlier agent was its parent
}

void WorkerProcess::kill() {
  if (!reaped_) ::syscall(SYS_pidfd_send_signal, process_.get(), SIGKILL, nullptr, 0);
}

std::string WorkerProcess::reap() {
  reaped_ = true;
  int status = 0;
  // Only its parent can know how it ended; that may have been an earlier agent.
  if (::waitpid(pid_, &status, 0) != pid_) return "ended";
  return describe_end(status);
}

std::string WorkerProcess::last_lines() const {
  std::error_code error;
  if (!fs::exists(log_path_, error) || fs::file_size(log_path_, error) == 0) return "";
  std::string text = runtime::read_text(log_path_);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  constexpr size_t kMost = 600;
  if (text.size() > kMost) text = "..." + text.substr(text.size() - kMost);
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::string find_worker_program() {
  if (const char* path = std::getenv("CRATON_WORKER"); path != nullptr && *path != '\0') {
    if (::access(path, X_OK) != 0)
      fail(ErrorCode::kNotFound, "CRATON_WORKER names {}, which cannot be run", path);
    return path;
  }
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  const fs::path beside = self.parent_path() / "craton-worker";
  if (!fs::exists(beside))
    fail(ErrorCode::kNotFound,
         "there is no craton-worker beside {}; build it, or name one with CRATON_WORKER",
         self.string());
  return beside.string();
}

}  // namespace craton::control
