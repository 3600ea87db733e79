#include "craton/store/http/budget.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

namespace craton::store::http {
namespace {

using namespace std::chrono_literals;

/// A server in simulated time: `limit` requests in flight move `rate(limit)` bytes a second.
void serve(Budget& budget, Clock::time_point& now, std::chrono::seconds time,
           const std::function<double(size_t)>& rate) {
  constexpr uint64_t kSize = 1 << 20;
  const auto end = now + time;
  while (now < end) {
    size_t started = budget.requests();
    while (budget.try_start(kSize)) ++started;
    // A round: all that are in flight end, one behind the other.
    const auto each = std::chrono::duration_cast<Clock::duration>(
        std::chrono::duration<double>(static_cast<double>(kSize) / rate(started)));
    while (budget.requests() > 0) {
      now += each;
      budget.finish(kSize, kSize, false, now);
    }
  }
}

TEST(Budget, ClimbsWhileMoreRequestsBringMore) {
  Clock::time_point now{};
  Budget budget({}, now);
  serve(budget, now, 60s, [](size_t n) { return 20e6 * static_cast<double>(n); });
  EXPECT_EQ(budget.limit(), 256u);
}

TEST(Budget, StaysNearWhereMoreRequestsStopPaying) {
  Clock::time_point now{};
  Budget budget({}, now);
  size_t most = 0;
  for (int i = 0; i < 60; ++i) {
    serve(budget, now, 1s,
          [](size_t n) { return 20e6 * static_cast<double>(std::min<size_t>(n, 40)); });
    most = std::max(most, budget.limit());
  }
  EXPECT_GE(budget.limit(), 30u);
  EXPECT_LE(most, 64u);
}

TEST(Budget, ComesBackWhereMoreRequestsHurt) {
  Clock::time_point now{};
  Budget budget({.first_requests = 16}, now);
  serve(budget, now, 30s, [](size_t n) { return n <= 20 ? 1e9 : 0.7e9; });
  EXPECT_LE(budget.limit(), 25u);
}

TEST(Budget, AStormOf503sHalvesTheLimitOnce) {
  Clock::time_point now{};
  Budget budget({.first_requests = 64}, now);
  for (int i = 0; i < 64; ++i) ASSERT_TRUE(budget.try_start(1));
  for (int i = 0; i < 32; ++i) budget.finish(1, 0, true, now + std::chrono::milliseconds(i));
  EXPECT_EQ(budget.limit(), 32u);
  for (int i = 0; i < 32; ++i) budget.finish(1, 0, true, now + 1s);
  EXPECT_EQ(budget.limit(), 16u);
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(budget.try_start(1));
    now += 2s;
    budget.finish(1, 0, true, now);
  }
  EXPECT_EQ(budget.limit(), 2u);  // never to a standstill
}

TEST(Budget, BoundsTheBytesButLetsALargeRequestRunAlone) {
  Clock::time_point now{};
  Budget budget({.bytes = 100}, now);
  ASSERT_TRUE(budget.try_start(60));
  EXPECT_FALSE(budget.try_start(41));
  EXPECT_TRUE(budget.try_start(40));
  EXPECT_EQ(budget.bytes(), 100u);
  budget.finish(60, 60, false, now);
  budget.finish(40, 40, false, now);
  EXPECT_TRUE(budget.try_start(1000));
  EXPECT_FALSE(budget.try_start(1));
  budget.finish(1000, 1000, false, now);
  EXPECT_EQ(budget.bytes(), 0u);
}

}  // namespace
}  // namespace craton::store::http
