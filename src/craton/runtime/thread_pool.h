#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

namespace craton::runtime {

/// A fixed number of threads and a bounded queue. Tasks carry errors through their future.
class ThreadPool {
 public:
  /// `queue_limit` bounds waiting tasks; `submit` blocks at the limit (back-pressure). 0 means 4 per thread.
  explicit ThreadPool(size_t threads, size_t queue_limit = 0);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  /// Finishes the queue, then joins.
  ~ThreadPool();

  size_t size() const { return threads_.size(); }
  std::future<void> submit(std::function<void()> task);

 private:
  void run();
  std::mutex mutex_;
  std::condition_variable wake_, room_;
  std::deque<std::packaged_task<void()>> queue_;
  size_t queue_limit_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

/// Calls body(i) for i in [0, count) on `threads` threads; the first error is thrown after all have ended.
void parallel_for(size_t count, size_t threads, const std::function<void(size_t)>& body);

/// Cores this process may use (affinity mask), at least 1.
size_t available_cores();

}  // namespace craton::runtime
