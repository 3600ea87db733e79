#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>

#include "craton/protocol/messages.h"
#include "craton/recipe/recipe.h"
#include "craton/runtime/file.h"
#include "craton/runtime/message_channel.h"

namespace craton::control {

/// A worker that this process has started: a pidfd to see its end, a socket to talk to it. Killed
/// when it is destroyed.
class WorkerProcess {
 public:
  /// `program` as in find_worker_program; `recipe_path` is the resolved recipe; output goes to
  /// `log_path`. Kernels are pinned before exec when the recipe says `kernels: portable`. The
  /// worker dies with this process.
  WorkerProcess(const recipe::Recipe& recipe, const std::string& program,
                const std::string& recipe_path, std::string log_path,
                const std::vector<std::string>& more_environment = {});
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;
  ~WorkerProcess();

  pid_t pid() const { return pid_; }
  /// Readable when the process has ended.
  int process_fd() const { return process_.get(); }
  runtime::MessageChannel& channel() { return *channel_; }

  void kill();
  /// Takes the exit status; call once the process has ended. "was killed by signal 9 (Killed)".
  std::string reap();
  /// What it wrote last, in one line.
  std::string last_lines() const;

 private:
  std::string log_path_;
  pid_t pid_ = -1;
  bool reaped_ = false;
  runtime::FileDescriptor process_;
  std::unique_ptr<runtime::MessageChannel> channel_;
};

/// `CRATON_WORKER` if set, else craton-worker beside this program. Error when there is none.
std::string find_worker_program();

}  // namespace craton::control
