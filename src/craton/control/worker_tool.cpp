#include "craton/control/worker_tool.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "craton/base/error.h"
#include "craton/control/worker_environment.h"

namespace craton::control {
namespace {

std::atomic<pid_t> g_tool{0};

/// SIGINT ignored, SIGTERM passed on; as before when it is destroyed.
class SignalsForTool {
 public:
  SignalsForTool() {
    struct sigaction ignore = {}, pass = {};
    ignore.sa_handler = SIG_IGN;
    pass.sa_handler = [](int number) {
      if (const pid_t tool = g_tool; tool > 0) ::kill(tool, number);
    };
    ::sigaction(SIGINT, &ignore, &interrupt_);
    ::sigaction(SIGTERM, &pass, &terminate_);
  }
  ~SignalsForTool() {
    restore();
    g_tool = 0;
  }
  void restore() const {
    ::sigaction(SIGINT, &interrupt_, nullptr);
    ::sigaction(SIGTERM, &terminate_, nullptr);
  }

 private:
  struct sigaction interrupt_ = {}, terminate_ = {};
};

}  // namespace

int run_worker_tool(const std::string& program, const std::vector<std::string>& arguments,
                    const std::string& kernels) {
  std::vector<std::string> environment = worker_environment(kernels, 1, FreedPages::kKept);
  std::vector<char*> envp, argv = {const_cast<char*>(program.c_str())};
  for (std::string& entry : environment) envp.push_back(entry.data());
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  envp.push_back(nullptr);
  argv.push_back(nullptr);
  const SignalsForTool signals;
  const pid_t parent = ::getpid(), child = ::fork();
  if (child < 0) fail_errno(fmt::format("cannot start {}", program), errno);
  if (child == 0) {
    signals.restore();
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(127);
    ::execve(program.c_str(), argv.data(), envp.data());
    ::_exit(127);
  }
  g_tool = child;
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) fail_errno("cannot wait for the worker's program", errno);
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace craton::control
