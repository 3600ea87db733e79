#include "craton/cluster/elastic_policy.h"

#include <gtest/gtest.h>

namespace craton::cluster {
namespace {

using std::chrono::milliseconds;

ElasticPolicy policy() { return {.min_workers = 2, .max_workers = 8}; }

TEST(PermittedSize, RangesIncrementsAndLists) {
  ElasticPolicy p = policy();
  EXPECT_EQ(permitted_size(p, 1), 0);
  EXPECT_EQ(permitted_size(p, 5), 5);
  EXPECT_EQ(permitted_size(p, 50), 8);
  p.increment = 3;
  EXPECT_EQ(permitted_size(p, 4), 2);
  EXPECT_EQ(permitted_size(p, 7), 5);
  p.sizes = {1, 4, 2, 16};
  EXPECT_EQ(permitted_size(p, 3), 2);
  EXPECT_EQ(permitted_size(p, 100), 4);
  EXPECT_EQ(permitted_size(p, 1), 0);
}

TEST(Backoff, TheFirstIsFreeThenItDoubles) {
  const ElasticPolicy p = policy();
  EXPECT_EQ(failure_backoff(p, 1), milliseconds(0));
  EXPECT_EQ(failure_backoff(p, 2), milliseconds(1000));
  EXPECT_EQ(failure_backoff(p, 4), milliseconds(4000));
  EXPECT_EQ(failure_backoff(p, 1000), milliseconds(60000));
}

TEST(DecideSize, SurvivorsGoOnAtOnce) {
  const ObservedSize o{.training = 3,
                       .starting = 1,
                       .requested = 4,
                       .proven = 4,
                       .stopped = true,
                       .last_failure = milliseconds(100)};
  const SizeDecision size = decide_size(policy(), o, milliseconds(100));
  EXPECT_FALSE(size.wait);
  EXPECT_FALSE(size.change);
  EXPECT_EQ(size.size, 3);
}

TEST(DecideSize, WaitsForAReplacementOnlyAsLongAsAllowed) {
  ElasticPolicy p = policy();
  p.wait_for_spare = milliseconds(500);
  ObservedSize o{.training = 3,
                 .starting = 1,
                 .requested = 4,
                 .stopped = true,
                 .last_failure = milliseconds(100)};
  SizeDecision size = decide_size(p, o, milliseconds(200));
  EXPECT_TRUE(size.wait);
  EXPECT_EQ(size.wake_at, milliseconds(600));
  EXPECT_FALSE(decide_size(p, o, milliseconds(600)).wait);
  o.ready = 1;  // it is there
  size = decide_size(p, o, milliseconds(200));
  EXPECT_FALSE(size.wait);
  EXPECT_TRUE(size.change);
  EXPECT_EQ(size.size, 4);
}

TEST(DecideSize, BelowTheMinimumTheJobWaits) {
  const ObservedSize o{.training = 1, .requested = 4, .stopped = true};
  EXPECT_TRUE(decide_size(policy(), o, milliseconds(1)).wait);
}

TEST(DecideSize, ReplacementNeedsNoStablePeriodGrowthDoes) {
  ElasticPolicy p = policy();
  p.stable_period = milliseconds(1000);
  ObservedSize o{
      .training = 3, .ready = 2, .requested = 8, .proven = 4, .ready_since = milliseconds(50)};
  SizeDecision size = decide_size(p, o, milliseconds(100));
  EXPECT_TRUE(size.change);
  EXPECT_EQ(size.size, 4);
  o.training = 4;
  o.ready = 1;
  size = decide_size(p, o, milliseconds(100));
  EXPECT_FALSE(size.change);
  EXPECT_EQ(size.wake_at, milliseconds(1050));
  EXPECT_EQ(decide_size(p, o, milliseconds(1050)).size, 5);
  o.explicit_request = true;
  EXPECT_TRUE(decide_size(p, o, milliseconds(100)).change);
}

TEST(DecideSize, SnoozesAfterAChange) {
  ElasticPolicy p = policy();
  p.snooze = milliseconds(300);
  const ObservedSize o{.training = 4,
                       .ready = 1,
                       .requested = 8,
                       .proven = 4,
                       .ready_since = milliseconds(0),
                       .last_change = milliseconds(900)};
  EXPECT_EQ(decide_size(p, o, milliseconds(1000)).wake_at, milliseconds(1200));
  EXPECT_TRUE(decide_size(p, o, milliseconds(1200)).change);
}

TEST(DecideSize, ReplacementsBackOff) {
  const ObservedSize o{.training = 3,
                       .ready = 1,
                       .requested = 4,
                       .proven = 4,
                       .last_failure = milliseconds(1000),
                       .failures = 3};
  EXPECT_EQ(decide_size(policy(), o, milliseconds(1500)).wake_at, milliseconds(3000));
  EXPECT_TRUE(decide_size(policy(), o, milliseconds(3000)).change);
}

TEST(DecideSize, DrainGoesAtOnceUnlessTheJobWouldFallTooLow) {
  ObservedSize o{.training = 2, .draining = 1, .requested = 3, .proven = 3};
  SizeDecision size = decide_size(policy(), o, milliseconds(0));
  EXPECT_TRUE(size.change);
  EXPECT_EQ(size.size, 2);
  o = {.training = 1,
       .draining = 1,
       .requested = 2,
       .proven = 2,
       .drain_deadline = milliseconds(5000)};
  size = decide_size(policy(), o, milliseconds(0));
  EXPECT_FALSE(size.change);
  EXPECT_EQ(size.wake_at, milliseconds(5000));
  o.ready = 1;
  EXPECT_TRUE(decide_size(policy(), o, milliseconds(0)).change);
}

TEST(DecideSize, ScaleDownAndDiscreteSizes) {
  ElasticPolicy p = policy();
  p.sizes = {2, 4, 8};
  EXPECT_EQ(decide_size(p, {.training = 3, .requested = 4, .stopped = true}, milliseconds(0)).size,
            2);
  const SizeDecision size = decide_size(p, {.training = 4, .requested = 3}, milliseconds(0));
  EXPECT_TRUE(size.change);
  EXPECT_EQ(size.size, 2);
}

// Three of four are left, and sizes are even: one of them waits beside the job.
TEST(DecideSize, WhoIsLeftOverCompletesTheNextSize) {
  ElasticPolicy p = policy();
  p.increment = 2;
  ObservedSize o{.training = 2, .left_over = 1, .starting = 1, .requested = 4, .stopped = true};
  EXPECT_EQ(decide_size(p, o, milliseconds(0)),
            (SizeDecision{.size = 2, .reason = "goes on with what is there"}));
  EXPECT_EQ(decide_starts(p, o, 0, milliseconds(0)).count, 0);
  o.starting = 0;
  EXPECT_EQ(decide_starts(p, o, 0, milliseconds(0)).count, 1);
  o.ready = 1;  // before anybody has gone on with two
  const SizeDecision size = decide_size(p, o, milliseconds(0));
  EXPECT_TRUE(size.change);
  EXPECT_EQ(size.size, 4);
}

TEST(DecideStarts, FillsUpAndBacksOff) {
  ObservedSize o{.training = 2, .ready = 1, .starting = 1, .requested = 4};
  EXPECT_EQ(decide_starts(policy(), o, 1, milliseconds(0)).count, 1);
  o.failures = 2;
  o.last_failure = milliseconds(0);
  EXPECT_EQ(decide_starts(policy(), o, 1, milliseconds(10)),
            (StartDecision{0, milliseconds(1000)}));
  o.starting = 3;
  EXPECT_EQ(decide_starts(policy(), o, 1, milliseconds(5000)).count, 0);
}

}  // namespace
}  // namespace craton::cluster
