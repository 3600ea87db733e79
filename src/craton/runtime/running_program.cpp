#include "craton/runtime/running_program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>

#include "craton/base/error.h"

namespace craton::runtime {
namespace {

FileDescriptor memory_file() {
  FileDescriptor file(::memfd_create("craton-output", MFD_CLOEXEC));
  if (!file.valid()) fail_errno("cannot make a file in memory", errno);
  return file;
}

std::string content(int file) {
  struct stat facts {};
  if (::fstat(file, &facts) != 0) fail_errno("cannot read a program's output", errno);
  std::string text(static_cast<size_t>(facts.st_size), '\0');
  read_exactly(file, std::as_writable_bytes(std::span(text)), 0, "a program's output");
  return text;
}

}  // namespace

RunningProgram::RunningProgram(const std::vector<std::string>& argv, const ProgramOptions& options)
    : output_(memory_file()), errors_(memory_file()) {
  std::vector<char*> args;
  for (const std::string& arg : argv) args.push_back(const_cast<char*>(arg.c_str()));
  args.push_back(nullptr);
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0) fail_errno(fmt::format("cannot start {}", argv.at(0)), errno);
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(127);
    ::dup2(output_.get(), STDOUT_FILENO);
    ::dup2(errors_.get(), STDERR_FILENO);
    if (!options.folder.empty() && ::chdir(options.folder.c_str()) != 0) ::_exit(127);
    for (const std::string& entry : options.environment) ::putenv(const_cast<char*>(entry.c_str()));
    ::execvp(args[0], args.data());
    ::_exit(127);
  }
  process_ = FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  if (!process_.valid()) fail_errno(fmt::format("cannot watch {}", argv.at(0)), errno);
}

RunningProgram::~RunningProgram() {
  if (result_) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

std::vector<pid_t> RunningProgram::children() const {
  std::vector<pid_t> found;
  std::error_code error;
  const std::filesystem::path tasks = "/proc/" + std::to_string(pid_) + "/task";
  for (const auto& task : std::filesystem::directory_iterator(tasks, error)) {
    std::ifstream list(task.path() / "children");  // unreadable when the thread has just ended
    for (pid_t child; list >> child;) found.push_back(child);
  }
  std::sort(found.begin(), found.end());
  return found;
}

void RunningProgram::signal(int number) const {
  if (!result_) ::kill(pid_, number);
}

std::optional<ProgramResult> RunningProgram::wait(std::chrono::milliseconds timeout) {
  if (result_) return result_;
  pollfd entry{process_.get(), POLLIN, 0};
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    const int ready = ::poll(&entry, 1, static_cast<int>(std::max<int64_t>(0, left.count())));
    if (ready > 0) break;
    if (ready == 0) return std::nullopt;
    if (errno != EINTR) fail_errno("cannot wait for a program", errno);
  }
  int status = 0;
  ::waitpid(pid_, &status, 0);
  result_.emplace();
  result_->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result_->output = content(output_.get());
  result_->errors = content(errors_.get());
  return result_;
}

}  // namespace craton::runtime
