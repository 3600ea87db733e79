#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "craton/protocol/messages.h"
#include "craton/recipe/recipe.h"
#include "craton/runtime/file.h"
#include "craton/runtime/message_channel.h"
#include "craton/runtime/progress_page.h"

namespace craton::control {

struct WorkerStart {
  int number = 0;                        ///< as this job counts its workers
  std::string program;                   ///< as in find_worker_program
  std::string folder;                    ///< of its agent: recipe.yaml is there
  std::string log_path;                  ///< for its output
  std::vector<std::string> environment;  ///< on top of this process's
};

/// A worker on this machine: a pidfd to see its end, a socket to talk to it, a page in which it
/// says how far it is. Killed when this is destroyed, unless it was let go.
class WorkerProcess {
 public:
  /// Starts one. Kernels are pinned before exec when the recipe says `kernels: portable`.
  WorkerProcess(const recipe::Recipe& recipe, const WorkerStart& start);
  /// One that an earlier agent has started, and that has not called yet. Error kPeerLost when the
  /// process is gone.
  WorkerProcess(pid_t pid, std::string log_path);
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;
  ~WorkerProcess();

  pid_t pid() const { return pid_; }
  /// Readable when the process has ended.
  int process_fd() const { return process_.get(); }
  /// Null while it has not called.
  runtime::MessageChannel* channel() { return channel_.get(); }
  /// It has called: what it says comes here, and its progress page is this one of its descriptors.
  void connect(std::unique_ptr<runtime::MessageChannel> channel, int progress_fd);
  /// Null when there is none.
  const runtime::ProgressPage* progress() const { return progress_; }

  void kill();
  /// It lives on without an agent, for as long as it wants to.
  void let_go() { reaped_ = true; }
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
  const runtime::ProgressPage* progress_ = nullptr;
};

/// `CRATON_WORKER` if set, else craton-worker beside this program. Error when there is none.
std::string find_worker_program();

}  // namespace craton::control
