#include "craton/runtime/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "craton/base/error.h"
#include "craton/runtime/file.h"

namespace craton::runtime {
namespace {

constexpr size_t kMaxOutput = 64u << 20;

struct Pipe {
  FileDescriptor read, write;
  Pipe() {
    int fds[2];
    if (::pipe2(fds, O_CLOEXEC) != 0) fail_errno("cannot make a pipe", errno);
    read = FileDescriptor(fds[0]);
    write = FileDescriptor(fds[1]);
  }
};

[[noreturn]] void become(const std::vector<std::string>& argv, const ProgramOptions& options,
                         int out, int err) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
  if (!options.folder.empty() && ::chdir(options.folder.c_str()) != 0) ::_exit(127);
  for (const std::string& entry : options.environment) ::putenv(const_cast<char*>(entry.c_str()));
  std::vector<char*> args;
  for (const std::string& arg : argv) args.push_back(const_cast<char*>(arg.c_str()));
  args.push_back(nullptr);
  ::execvp(args[0], args.data());
  ::_exit(127);
}

}  // namespace

ProgramResult run_program(const std::vector<std::string>& argv, const ProgramOptions& options) {
  Pipe out, err;
  const pid_t pid = ::fork();
  if (pid < 0) fail_errno(fmt::format("cannot start {}", argv.at(0)), errno);
  if (pid == 0) become(argv, options, out.write.get(), err.write.get());
  out.write.reset();
  err.write.reset();
  ProgramResult result;
  const auto deadline = std::chrono::steady_clock::now() + options.timeout;
  pollfd entries[2] = {{out.read.get(), POLLIN, 0}, {err.read.get(), POLLIN, 0}};
  std::string* texts[2] = {&result.output, &result.errors};
  bool killed = false;
  while (entries[0].fd >= 0 || entries[1].fd >= 0) {
    ::poll(entries, 2, 200);
    if (!killed && std::chrono::steady_clock::now() > deadline) {
      ::kill(pid, SIGKILL);
      killed = true;
      break;
    }
    for (int k = 0; k < 2; ++k) {
      if (entries[k].fd < 0 || entries[k].revents == 0) continue;
      char bytes[65536];
      const ssize_t n = ::read(entries[k].fd, bytes, sizeof(bytes));
      if (n > 0 && texts[k]->size() < kMaxOutput) texts[k]->append(bytes, static_cast<size_t>(n));
      if (n == 0 || (n < 0 && errno != EINTR)) entries[k].fd = -1;
    }
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  if (killed) {
    throw Error(ErrorCode::kTimeout,
                fmt::format("{} did not end within {} s", argv.at(0), options.timeout.count()))
        .with("output",
              result.output.substr(result.output.size() > 400 ? result.output.size() - 400 : 0));
  }
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

}  // namespace craton::runtime
