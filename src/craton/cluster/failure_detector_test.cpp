#include "craton/cluster/failure_detector.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace craton::cluster {
namespace {

using std::chrono::milliseconds;
using Phase = StepPhase;

WorkerObservation seen(uint64_t id, Phase phase, uint64_t operation, bool waiting, int since,
                       int64_t step = 7) {
  return {WorkerId(id),
          fmt::format("n{}", id),
          milliseconds(99000),
          {phase, Step(step), operation, waiting},
          milliseconds(since)};
}
const milliseconds kNow{100000};

TEST(FailureDetector, AllMovingIsFine) {
  const std::vector members{seen(1, Phase::kCompute, 3, false, 90000),
                            seen(2, Phase::kCompute, 3, false, 99000)};
  const Suspicion s = find_suspects({}, members, kNow);
  EXPECT_TRUE(s.workers.empty());
  EXPECT_FALSE(s.stalled);
  ASSERT_TRUE(s.wake_at);
  EXPECT_EQ(*s.wake_at, milliseconds(102000));  // the next heartbeat deadline comes first
}

TEST(FailureDetector, ALostNodeIsOneSuspicion) {
  std::vector members{seen(1, Phase::kCompute, 3, false, 99000),
                      seen(2, Phase::kCompute, 3, false, 99000),
                      seen(3, Phase::kCompute, 3, false, 99000)};
  members[1].last_heartbeat = members[2].last_heartbeat = milliseconds(90000);
  EXPECT_EQ(find_suspects({}, members, kNow).workers, (std::vector{WorkerId(2), WorkerId(3)}));
}

TEST(FailureDetector, TheOneThatDidNotArriveIsTheCulprit) {
  const std::vector members{seen(1, Phase::kReduce, 4, true, 30000),
                            seen(2, Phase::kCompute, 3, false, 20000),
                            seen(3, Phase::kReduce, 4, true, 31000)};
  const Suspicion s = find_suspects({}, members, kNow);
  EXPECT_EQ(s.workers, std::vector{WorkerId(2)});
  EXPECT_NE(s.reason.find("step 7"), std::string::npos);
}

TEST(FailureDetector, SlowIsNotHanging) {
  // Worker 2 computes for long; worker 1 came to its wait only a moment ago, so the group has
  // moved.
  const std::vector members{seen(1, Phase::kReduce, 4, true, 80000),
                            seen(2, Phase::kCompute, 3, false, 20000)};
  EXPECT_TRUE(find_suspects({}, members, kNow).workers.empty());
}

TEST(FailureDetector, ValidationAndCheckpointMayTakeLongerThanAStep) {
  for (const Phase phase : {Phase::kValidation, Phase::kCheckpoint}) {
    const std::vector members{seen(1, Phase::kCompute, 4, true, 1000, 8),
                              seen(2, phase, 3, false, 1000)};
    EXPECT_TRUE(find_suspects({}, members, kNow).workers.empty());
    FailureDetectorOptions limited;
    limited.validation_timeout = limited.checkpoint_timeout = milliseconds(50000);
    EXPECT_EQ(find_suspects(limited, members, kNow).workers, std::vector{WorkerId(2)});
  }
}

TEST(FailureDetector, IfAllWaitNobodyIsToBlame) {
  const std::vector members{seen(1, Phase::kReduce, 4, true, 1000),
                            seen(2, Phase::kReduce, 4, true, 1000)};
  const Suspicion s = find_suspects({}, members, kNow);
  EXPECT_TRUE(s.stalled);
  EXPECT_TRUE(s.workers.empty());
}

TEST(FailureDetector, AllEquallyLateAreNotAllFenced) {
  const std::vector members{seen(1, Phase::kCompute, 3, false, 1000),
                            seen(2, Phase::kCompute, 3, false, 1000)};
  const Suspicion s = find_suspects({}, members, kNow);
  EXPECT_TRUE(s.workers.empty());
  EXPECT_TRUE(s.stalled);
}

TEST(FailureDetector, WhoHasLeftTheGenerationIsNotToBlameAndMakesItStall) {
  const std::vector left{seen(1, Phase::kFenced, 0, false, 1000),
                         seen(2, Phase::kGather, 9, true, 1000)};
  const Suspicion s = find_suspects({}, left, kNow);
  EXPECT_TRUE(s.workers.empty());
  EXPECT_TRUE(s.stalled);
  const std::vector moving{seen(1, Phase::kFenced, 0, false, 1000),
                           seen(2, Phase::kGather, 9, true, 99000)};
  EXPECT_FALSE(find_suspects({}, moving, kNow).stalled);
}

}  // namespace
}  // namespace craton::cluster
