#include "craton/runtime/event_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "craton/base/check.h"
#include "craton/base/error.h"
#include "craton/base/log.h"

namespace craton::runtime {
namespace {

/// An error must not end the thread that all connections live on; who waits for its outcome times
/// out.
void guarded(const std::function<void()>& body) {
  try {
    body();
  } catch (const std::exception& error) {
    log_error("event loop: {}", error.what());
  }
}

}  // namespace

EventLoop::EventLoop()
    : epoll_(::epoll_create1(EPOLL_CLOEXEC)), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!epoll_.valid() || !wake_.valid()) fail_errno("cannot create an event loop", errno);
  epoll_event event{.events = EPOLLIN, .data = {.u64 = 0}};
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event) != 0) {
    fail_errno("cannot create an event loop", errno);
  }
  thread_ = std::thread([this] { run(); });
}

uint64_t EventLoop::add(int fd, uint32_t events, Handler handler) {
  std::lock_guard lock(mutex_);
  const uint64_t id = next_id_++;
  epoll_event event{.events = events, .data = {.u64 = id}};
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    fail_errno("cannot watch a descriptor", errno);
  }
  entries_[id] = {fd, std::make_shared<Handler>(std::move(handler))};
  return id;
}

void EventLoop::modify(uint64_t id, uint32_t events) {
  std::lock_guard lock(mutex_);
  const auto it = entries_.find(id);
  if (it == entries_.end()) return;
  epoll_event event{.events = events, .data = {.u64 = id}};
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, it->second.fd, &event);
}

void EventLoop::remove(uint64_t id) {
  std::shared_ptr<Handler> last;  // destroyed outside of the lock: it may own what calls back
  std::lock_guard lock(mutex_);
  const auto it = entries_.find(id);
  if (it == entries_.end()) return;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, it->second.fd, nullptr);
  last = std::move(it->second.handler);
  entries_.erase(it);
}

void EventLoop::post(std::function<void()> task) {
  {
    std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  const uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof(one));
}

void EventLoop::after(std::chrono::milliseconds delay, std::function<void()> task) {
  {
    std::lock_guard lock(mutex_);
    timers_.emplace(Clock::now() + delay, std::move(task));
  }
  post([] {});
}

void EventLoop::stop() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  const uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof(one));
  if (thread_.joinable()) {
    CRATON_CHECK(thread_.get_id() != std::this_thread::get_id());
    thread_.join();
  }
  decltype(entries_) entries;
  decltype(tasks_) tasks;
  decltype(timers_) timers;
  std::lock_guard lock(mutex_);
  entries.swap(entries_);
  tasks.swap(tasks_);
  timers.swap(timers_);
}

int EventLoop::wait_ms() {
  std::lock_guard lock(mutex_);
  if (!tasks_.empty()) return 0;
  if (timers_.empty()) return -1;
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(timers_.begin()->first - Clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 60'000));
}

void EventLoop::run_tasks() {
  std::vector<std::function<void()>> due;
  {
    std::lock_guard lock(mutex_);
    due.swap(tasks_);
    while (!timers_.empty() && timers_.begin()->first <= Clock::now()) {
      due.push_back(std::move(timers_.begin()->second));
      timers_.erase(timers_.begin());
    }
  }
  for (auto& task : due) guarded(task);
}

void EventLoop::run() {
  std::array<epoll_event, 64> events;
  while (true) {
    const int n = ::epoll_wait(epoll_.get(), events.data(), events.size(), wait_ms());
    for (int i = 0; i < n; ++i) {
      if (events[i].data.u64 == 0) {
        uint64_t count;
        (void)!::read(wake_.get(), &count, sizeof(count));
        continue;
      }
      std::shared_ptr<Handler> handler;
      {
        std::lock_guard lock(mutex_);
        if (stop_) return;
        const auto it = entries_.find(events[i].data.u64);
        if (it == entries_.end()) continue;  // removed by a handler of this round
        handler = it->second.handler;
      }
      guarded([&] { (*handler)(events[i].events); });
    }
    {
      std::lock_guard lock(mutex_);
      if (stop_) return;
    }
    run_tasks();
  }
}

}  // namespace craton::runtime
