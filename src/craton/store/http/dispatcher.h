#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "craton/store/http/budget.h"
#include "craton/store/http/transfer.h"

namespace craton::store::http {

class Reactor;

/// What the process has moved, since the dispatcher was made.
struct TrafficCounters {
  uint64_t requests = 0, bytes = 0, slow_downs = 0, faults = 0, retries = 0;
  size_t limit = 0;                  ///< requests that may be in flight now
  double seconds_to_first_byte = 0;  ///< of all requests, from sent to the first byte
  double seconds_of_bodies = 0;      ///< of all requests, from the first byte to the last
  /// Requests by the time from their start to their last byte: bucket b holds those up to
  /// latency_of(b) seconds.
  std::array<uint64_t, 128> latencies{};

  static double latency_of(size_t bucket);
  /// The latency that a share of the requests did not exceed, up to the width of a bucket (15 %);
  /// 0 without requests.
  double latency_quantile(double share) const;
  /// What was moved since `before`.
  TrafficCounters since(const TrafficCounters& before) const;
};

/// All HTTP of the process: a few reactor threads, each with its own set of handles and
/// connections, and one budget of requests and bytes in flight. What does not fit waits here in
/// order; it is bounded, since every caller waits for its own few.
class Dispatcher {
 public:
  /// The process's own, made on first use and gone with its last user. Sizes come from
  /// CRATON_STORE_REQUESTS, CRATON_STORE_BYTES and CRATON_STORE_THREADS. A child of fork gets a new
  /// one: the threads of the parent's do not exist in it.
  static std::shared_ptr<Dispatcher> shared();

  Dispatcher(const BudgetLimits& limits, size_t threads);
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;
  ~Dispatcher();

  void submit(Transfer& transfer);
  /// Ends a transfer soon, with kCancelled; `done` is called as ever.
  void cancel(Transfer& transfer);
  TrafficCounters counters() const;
  void count_retry();
  pid_t owner() const { return owner_; }

 private:
  friend class Reactor;
  void finished(Transfer& transfer);  // on a reactor's thread
  void pump(std::unique_lock<std::mutex>& lock);

  mutable std::mutex mutex_;
  Budget budget_;
  TrafficCounters counters_;
  std::deque<Transfer*> waiting_;
  std::vector<std::unique_ptr<Reactor>> reactors_;
  size_t next_ = 0;
  pid_t owner_;
};

}  // namespace craton::store::http
