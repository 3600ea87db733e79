#include "craton/store/range_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace craton::store {
namespace {

using ::testing::ElementsAre;

ObjectRead range(std::string key, uint64_t offset, uint64_t length) {
  return {.key = std::move(key), .offset = offset, .length = length};
}

TEST(RangePlan, NeighboursComeInOneRequestInTheOrderOfTheFirst) {
  const std::vector<ObjectRead> reads = {range("b", 0, 1000), range("a", 2000, 1000),
                                         range("a", 1000, 1000), range("b", 1000, 50)};
  const RangePlan plan = plan_ranges(reads, {});
  ASSERT_EQ(plan.reads.size(), 2u);
  EXPECT_EQ(plan.reads[0].key, "b");
  EXPECT_EQ(plan.reads[0].length, 1050u);
  EXPECT_EQ(plan.reads[1].offset, 1000u);
  EXPECT_EQ(plan.reads[1].length, 2000u);
  ASSERT_EQ(plan.pieces_of(1).size(), 2u);
  EXPECT_EQ(plan.pieces_of(1)[0].read, 2u);
  EXPECT_EQ(plan.pieces_of(1)[1].offset, 1000u);
}

TEST(RangePlan, LittleIsFetchedInVain) {
  // 16 KiB wanted may cost 1 KiB more, but not 2 KiB.
  const std::vector<ObjectRead> near = {range("a", 0, 8192), range("a", 9216, 8192)};
  EXPECT_EQ(plan_ranges(near, {}).reads.size(), 1u);
  const std::vector<ObjectRead> far = {range("a", 0, 8192), range("a", 10240, 8192)};
  EXPECT_EQ(plan_ranges(far, {}).reads.size(), 2u);
  std::vector<ObjectRead> every_other;
  for (uint64_t i = 0; i < 100; ++i) every_other.push_back(range("a", i * 2'000'000, 1'900'000));
  for (const ObjectRead& read : plan_ranges(every_other, {}).reads)
    EXPECT_LE(read.length, 8u << 20);
}

TEST(RangePlan, VersionsAndWholeObjectsAreNotJoined) {
  std::vector<ObjectRead> reads = {range("a", 0, 100), range("a", 100, 100)};
  reads[1].etag = "v2";
  EXPECT_EQ(plan_ranges(reads, {}).reads.size(), 2u);
  reads = {{.key = "a"}, {.key = "a"}, {.key = "a", .length = 16, .from_end = true}};
  EXPECT_EQ(plan_ranges(reads, {}).reads.size(), 3u);
  EXPECT_TRUE(plan_ranges(reads, {}).reads[0].is_whole());
}

TEST(RangePlan, BytesInFlightStayWithinTheLimit) {
  std::vector<ObjectRead> reads;
  for (uint64_t i = 0; i < 64; ++i) reads.push_back(range("a", i << 20, 1 << 20));
  const ReadLimits limits{.parallel = 16, .bytes = 4 << 20};
  const RangePlan plan = plan_ranges(reads, limits);
  uint64_t largest = 0;
  for (const ObjectRead& read : plan.reads) largest = std::max(largest, read.length);
  EXPECT_LE(largest * plan.parallel, limits.bytes);
  EXPECT_GE(plan.parallel, 4u);
  EXPECT_EQ(plan_ranges(reads, {.parallel = 16, .bytes = 1}).parallel, 1u);
}

TEST(RangePlan, OverlapsAndNonsenseAreHarmless) {
  const std::vector<ObjectRead> reads = {range("a", 0, 100), range("a", 10, 20), range("a", 0, 100),
                                         range("a", ~0ull - 5, 100)};
  const RangePlan plan = plan_ranges(reads, {});
  size_t pieces = 0;
  for (size_t i = 0; i < plan.reads.size(); ++i) pieces += plan.pieces_of(i).size();
  EXPECT_EQ(pieces, 4u);
  EXPECT_EQ(plan_ranges({}, {}).reads.size(), 0u);
}

}  // namespace
}  // namespace craton::store
