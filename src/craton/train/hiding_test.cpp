#include "craton/train/hiding.h"

#include <gtest/gtest.h>

namespace craton::train {
namespace {

using Passes = std::vector<std::vector<uint8_t>>;

TEST(HidingPasses, HideWhatIsDeadAtOnceWhereThereIsRoom) {
  EXPECT_EQ(hiding_passes(std::vector<double>{0, 0.1, 1, 0}, 3), (Passes{{0, 1, 1, 0}}));
  EXPECT_EQ(hiding_passes(std::vector<double>{0, 1, 1, 1}, 2), (Passes{{0, 1, 1, 1}}));
}

TEST(HidingPasses, AreNoneWhenThereIsNothingToFillOrNothingToSee) {
  EXPECT_TRUE(hiding_passes(std::vector<double>{0, 0}, 1).empty());
  EXPECT_TRUE(hiding_passes(std::vector<double>{1, 1}, 1).empty());
  EXPECT_TRUE(hiding_passes(std::vector<double>{1, 0.5}, 1).empty());
}

TEST(HidingPasses, EachTouchedColumnIsHiddenOnceAndEachPassShowsSome) {
  for (int64_t most = 1; most <= 9; ++most) {
    for (const std::vector<double>& dead :
         {std::vector<double>(9, 0.2), {0.2, 1, 0.1, 0, 1, 0.4, 0.5, 0, 0.9}}) {
      const Passes passes = hiding_passes(dead, most);
      std::vector<int> times(dead.size(), 0);
      for (const auto& pass : passes) {
        bool shows = false;
        for (size_t c = 0; c < dead.size(); ++c) {
          times[c] += pass[c];
          shows = shows || (pass[c] == 0 && dead[c] < 1);
        }
        EXPECT_TRUE(shows) << most;
      }
      for (size_t c = 0; c < dead.size(); ++c) {
        const int expected = dead[c] == 0 ? 0 : dead[c] == 1 ? static_cast<int>(passes.size()) : 1;
        EXPECT_EQ(times[c], expected) << most << " " << c;
      }
    }
  }
}

}  // namespace
}  // namespace craton::train
