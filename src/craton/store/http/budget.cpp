#include "craton/store/http/budget.h"

#include <algorithm>

namespace craton::store::http {

namespace {

constexpr auto kWindow = std::chrono::milliseconds(200);
constexpr auto kHold = std::chrono::seconds(5);
/// Requests that were in flight together report their 503s within about this time.
constexpr auto kOneStorm = std::chrono::milliseconds(500);
constexpr double kRequestWork = 64 << 10;
constexpr double kWorthIt = 1.05;

}  // namespace

Budget::Budget(const BudgetLimits& limits, Clock::time_point now)
    : limits_(limits),
      limit_(std::clamp(limits.first_requests, limits.least_requests, limits.most_requests)),
      hold_until_(now),
      last_cut_(now - kOneStorm) {
  start_window(now);
}

bool Budget::try_start(uint64_t bytes) {
  if (requests_ >= limit_) {
    window_full_ = true;
    return false;
  }
  if (requests_ > 0 && (bytes > limits_.bytes || bytes_ > limits_.bytes - bytes)) return false;
  ++requests_;
  bytes_ += bytes;
  return true;
}

void Budget::finish(uint64_t bytes, uint64_t moved, bool slow_down, Clock::time_point now) {
  --requests_;
  bytes_ -= bytes;
  if (slow_down) {
    if (now - last_cut_ < kOneStorm) return;
    last_cut_ = now;
    limit_ = std::max(limits_.least_requests, limit_ / 2);
    limit_before_ = 0;
    hold_until_ = now + kHold;
    start_window(now);
    return;
  }
  window_work_ += static_cast<double>(moved) + kRequestWork;
  ++window_requests_;
  if (now - window_start_ >= kWindow && window_requests_ >= limit_) end_window(now);
}

void Budget::end_window(Clock::time_point now) {
  const double rate = window_work_ / std::chrono::duration<double>(now - window_start_).count();
  const bool full = window_full_;
  start_window(now);
  if (!full || now < hold_until_) return;
  if (limit_before_ != 0 && rate < rate_before_ * kWorthIt) {
    limit_ = limit_before_;
    limit_before_ = 0;
    hold_until_ = now + kHold;
    return;
  }
  if (limit_ >= limits_.most_requests) return;
  limit_before_ = limit_;
  rate_before_ = rate;
  limit_ = std::min(limits_.most_requests, limit_ + std::max<size_t>(1, limit_ / 4));
}

void Budget::start_window(Clock::time_point now) {
  window_start_ = now;
  window_work_ = 0;
  window_requests_ = 0;
  window_full_ = false;
}

}  // namespace craton::store::http
