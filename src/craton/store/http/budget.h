#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "craton/store/http/retry.h"

namespace craton::store::http {

struct BudgetLimits {
  size_t least_requests = 2, first_requests = 16, most_requests = 256;
  uint64_t bytes = 512ull << 20;  ///< of bodies in flight
};

/// How many requests and bytes may be in flight. Pure: time comes in, nothing blocks; the caller
/// locks.
///
/// The limit climbs while that pays: in windows of a fifth of a second in which it was reached, the
/// rate (bytes, plus a fixed amount per request so that small objects count) is compared with the
/// rate at the limit before. A raise by a quarter that brings less than a twentieth is taken back,
/// and the next one is tried a few seconds later. "Slow down" halves the limit, once for all
/// requests that were in flight together. More requests than pay make reading slower, not only no
/// faster (kvikio, pull request 978).
class Budget {
 public:
  Budget(const BudgetLimits& limits, Clock::time_point now);

  /// Takes a place for a request whose bodies have `bytes`. One larger than the whole budget may
  /// run alone.
  bool try_start(uint64_t bytes);
  /// Gives the place back. `moved` are the bytes that did arrive.
  void finish(uint64_t bytes, uint64_t moved, bool slow_down, Clock::time_point now);

  size_t limit() const { return limit_; }
  size_t requests() const { return requests_; }
  uint64_t bytes() const { return bytes_; }

 private:
  void end_window(Clock::time_point now);
  void start_window(Clock::time_point now);

  BudgetLimits limits_;
  size_t limit_, requests_ = 0;
  uint64_t bytes_ = 0;

  Clock::time_point window_start_, hold_until_, last_cut_;
  double window_work_ = 0;
  size_t window_requests_ = 0;
  bool window_full_ = false;
  size_t limit_before_ = 0;  ///< 0: no raise is on trial
  double rate_before_ = 0;
};

}  // namespace craton::store::http
