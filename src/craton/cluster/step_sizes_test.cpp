#include "craton/cluster/step_sizes.h"

#include <gtest/gtest.h>

namespace craton::cluster {
namespace {

TEST(ScaledMicroBatches, FollowTheWorkers) {
  EXPECT_EQ(scaled_micro_batches(8, 0, 3), 8);
  EXPECT_EQ(scaled_micro_batches(8, 4, 4), 8);
  EXPECT_EQ(scaled_micro_batches(8, 4, 1), 2);
  EXPECT_EQ(scaled_micro_batches(8, 4, 6), 12);
  EXPECT_EQ(scaled_micro_batches(2, 4, 1), 1);
  EXPECT_EQ(scaled_micro_batches(1 << 16, 4096, 4096 * 1024), 1 << 26);
}

TEST(StepSizes, KnowWhereEachStepBegins) {
  StepSizes sizes;
  EXPECT_FALSE(sizes.at(Step(1)));
  sizes.set({Step(1), 0, 8});
  sizes.set({Step(5), 32, 4});
  EXPECT_EQ(sizes.at(Step(1)), (StepSize{Step(1), 0, 8}));
  EXPECT_EQ(sizes.at(Step(4)), (StepSize{Step(4), 24, 8}));
  EXPECT_EQ(sizes.at(Step(7)), (StepSize{Step(7), 40, 4}));
  EXPECT_FALSE(sizes.at(Step(0)));
}

TEST(StepSizes, AChangeOfPlanReplacesWhatWasToCome) {
  StepSizes sizes;
  sizes.set({Step(1), 0, 8});
  sizes.set({Step(5), 32, 4});
  sizes.set({Step(5), 32, 8});  // nothing has changed after all
  EXPECT_EQ(sizes.entries.size(), 1u);
  sizes.set({Step(3), 16, 2});
  EXPECT_EQ(sizes.at(Step(9)), (StepSize{Step(9), 28, 2}));
}

TEST(StepSizes, StayFewAndKnowTheNewestSteps) {
  StepSizes sizes;
  int64_t position = 0;
  for (int64_t step = 1; step <= 1000; ++step) {
    const int micro_batches = static_cast<int>(1 + step % 3);
    sizes.set({Step(step), position, micro_batches});
    position += micro_batches;
    ASSERT_LE(sizes.entries.size(), static_cast<size_t>(StepSizes::kRemembered) + 1);
    for (int64_t back = 0; back < std::min(step, StepSizes::kRemembered); ++back)
      ASSERT_EQ(sizes.at(Step(step - back))->micro_batches, 1 + (step - back) % 3);
  }
}

}  // namespace
}  // namespace craton::cluster
