#include "craton/base/fault_point.h"

#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <set>
#include <thread>

#include "craton/base/error.h"

namespace craton {
namespace {

class FaultPoints : public testing::Test {
 protected:
  void TearDown() override { arm_faults(""); }
};

TEST_F(FaultPoints, DoNothingUntilArmed) { EXPECT_FALSE(CRATON_FAULT_POINT("commit.before")); }

TEST_F(FaultPoints, FireOnceAtTheirRankStepAndOccurrence) {
  arm_faults("transfer.received:rank=1:step=3:occurrence=2:flip");
  set_fault_rank(0);
  set_fault_step(3);
  EXPECT_FALSE(CRATON_FAULT_POINT("transfer.received"));
  set_fault_rank(1);
  set_fault_step(2);
  EXPECT_FALSE(CRATON_FAULT_POINT("transfer.received"));
  set_fault_rank(1);
  set_fault_step(3);
  EXPECT_FALSE(CRATON_FAULT_POINT("transfer.chunk"));
  EXPECT_FALSE(CRATON_FAULT_POINT("transfer.received"));
  EXPECT_TRUE(CRATON_FAULT_POINT("transfer.received"));
  EXPECT_FALSE(CRATON_FAULT_POINT("transfer.received"));
}

TEST_F(FaultPoints, ThrowAndKill) {
  arm_faults("commit.before:throw; apply.middle:kill");
  EXPECT_THROW((void)CRATON_FAULT_POINT("commit.before"), Error);
  EXPECT_EXIT((void)CRATON_FAULT_POINT("apply.middle"), testing::KilledBySignal(SIGKILL), "");
}

TEST_F(FaultPoints, HoldUntilAFileExists) {
  const std::string file = testing::TempDir() + "fault_point_test_hold";
  std::remove(file.c_str());
  arm_faults("commit.before:hold=" + file);
  std::atomic<bool> passed{false};
  std::thread holder([&] {
    EXPECT_FALSE(CRATON_FAULT_POINT("commit.before"));
    passed = true;
  });
  EXPECT_FALSE(passed);
  std::ofstream(file) << "go";
  holder.join();
  std::remove(file.c_str());
}

TEST_F(FaultPoints, RefuseWhatIsUnknown) {
  EXPECT_THROW(arm_faults("comit.before:kill"), Error);
  EXPECT_THROW(arm_faults("commit.before:explode"), Error);
  EXPECT_THROW(arm_faults("commit.before:rank=one:kill"), Error);
  EXPECT_THROW(arm_faults("commit.before"), Error);
}

TEST_F(FaultPoints, HaveDistinctNamesAndMeanings) {
  std::set<std::string_view> names;
  for (const FaultPoint& point : fault_points()) {
    EXPECT_TRUE(names.insert(point.name).second) << point.name;
    EXPECT_FALSE(point.meaning.empty());
  }
}

}  // namespace
}  // namespace craton
