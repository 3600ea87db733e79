#include "craton/control/worker_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
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

WorkerProcess::WorkerProcess(const recipe::Recipe& recipe, const std::string& program,
                             const std::string& recipe_path, std::string log_path,
                             const std::vector<std::string>& more_environment)
    : log_path_(std::move(log_path)) {
  auto [channel, child_end] = runtime::MessageChannel::pair();
  runtime::FileDescriptor log(
      ::open(log_path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!log.valid()) fail_errno(fmt::format("cannot create {}", log_path_), errno);
  std::vector<std::string> environment = worker_environment(recipe.kernels, recipe.threads);
  environment.insert(environment.end(), more_environment.begin(), more_environment.end());
  std::vector<char*> envp;
  for (std::string& entry : environment) envp.push_back(entry.data());
  envp.push_back(nullptr);
  const std::string fd = std::to_string(child_end.get());
  const char* argv[] = {program.c_str(), "--recipe", recipe_path.c_str(),
                        "--control-fd",  fd.c_str(), nullptr};
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0) fail_errno("cannot start a worker", errno);
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(127);
    ::dup2(log.get(), STDOUT_FILENO);
    ::dup2(log.get(), STDERR_FILENO);
    ::execve(program.c_str(), const_cast<char**>(argv), envp.data());
    ::_exit(127);
  }
  channel_ = std::move(channel);
  process_ = runtime::FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  if (!process_.valid()) fail_errno("cannot watch a worker", errno);
}

WorkerProcess::~WorkerProcess() {
  if (reaped_) return;
  kill();
  ::waitpid(pid_, nullptr, 0);
}

void WorkerProcess::kill() {
  if (!reaped_) ::kill(pid_, SIGKILL);
}

std::string WorkerProcess::reap() {
  int status = 0;
  ::waitpid(pid_, &status, 0);
  reaped_ = true;
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
