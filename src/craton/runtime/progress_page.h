#pragma once

#include <atomic>
#include <cstdint>

#include "craton/runtime/file.h"

namespace craton::runtime {

/// Where a process is, in memory that another one watches. One writer; every write also counts
/// `changes` up, by which a reader sees life. The fields are written one by one, so a reader may
/// mix two moments; whoever judges a process does so when nothing has changed for long.
struct ProgressPage {
  std::atomic<uint64_t> changes{0};
  std::atomic<uint32_t> phase{0};
  std::atomic<uint32_t> waiting{0};  ///< above 0: it waits for peers
  std::atomic<int64_t> step{0};
  std::atomic<uint64_t> operation{0};
};

/// A page for a child process; the descriptor survives exec.
FileDescriptor make_progress_page();
/// Maps a page for reading. Null when `fd` is none.
const ProgressPage* map_progress_page(int fd);
void unmap_progress_page(const ProgressPage* page);

/// This process's page: private memory until `publish_progress` puts it where others read.
ProgressPage& progress();
/// Moves this process's page to `fd`, and makes the calling thread the one whose waits count; call
/// it before there are other threads. False when `fd` is no page.
bool publish_progress(int fd);

namespace detail {
extern thread_local bool watched_thread;
}  // namespace detail

inline void set_progress_phase(uint32_t phase) {
  progress().phase.store(phase, std::memory_order_relaxed);
  progress().changes.fetch_add(1, std::memory_order_relaxed);
}
inline void set_progress_step(int64_t step) {
  progress().step.store(step, std::memory_order_relaxed);
  progress().changes.fetch_add(1, std::memory_order_relaxed);
}
/// Something moved within the phase.
inline void count_progress() { progress().changes.fetch_add(1, std::memory_order_relaxed); }

/// While it lives, this thread waits for peers in `operation`. Threads beside the one that
/// publishes wait all the time, which says nothing.
class ProgressWait {
 public:
  explicit ProgressWait(uint64_t operation) {
    if (!detail::watched_thread) return;
    progress().operation.store(operation, std::memory_order_relaxed);
    progress().waiting.fetch_add(1, std::memory_order_relaxed);
    count_progress();
  }
  ProgressWait(const ProgressWait&) = delete;
  ProgressWait& operator=(const ProgressWait&) = delete;
  ~ProgressWait() {
    if (!detail::watched_thread) return;
    progress().waiting.fetch_sub(1, std::memory_order_relaxed);
    count_progress();
  }
};

}  // namespace craton::runtime
