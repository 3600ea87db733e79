#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "craton/runtime/file.h"

namespace craton::runtime {

/// One thread that waits for many descriptors and runs their handlers, posted tasks and timers, one
/// at a time. Handlers must not block. All methods may be called from any thread; `remove` promises
/// that the handler does not run again only when called on the loop's thread.
class EventLoop {
 public:
  using Handler = std::function<void(uint32_t events)>;  // EPOLLIN | EPOLLOUT | ...

  EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;
  ~EventLoop() { stop(); }

  /// Level-triggered. The descriptor stays the caller's and must outlive the entry.
  uint64_t add(int fd, uint32_t events, Handler handler);
  void modify(uint64_t id, uint32_t events);
  void remove(uint64_t id);

  void post(std::function<void()> task);
  void after(std::chrono::milliseconds delay, std::function<void()> task);

  /// Ends the thread; what is still posted is dropped. Idempotent.
  void stop();

 private:
  struct Entry {
    int fd;
    std::shared_ptr<Handler> handler;
  };
  using Clock = std::chrono::steady_clock;
  void run();
  int wait_ms();
  void run_tasks();

  FileDescriptor epoll_, wake_;
  std::mutex mutex_;
  std::map<uint64_t, Entry> entries_;
  std::vector<std::function<void()>> tasks_;
  std::multimap<Clock::time_point, std::function<void()>> timers_;
  uint64_t next_id_ = 1;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace craton::runtime
