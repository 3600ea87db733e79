#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <random>

#include "craton/parallel/assignment.h"
#include "craton/parallel/flat_layout.h"
#include "craton/parallel/reduction_tree.h"

namespace craton::parallel {
namespace {

TEST(FlatLayout, CoversEveryElementOnce) {
  const FlatLayout layout(
      {{"a", {3, 7}}, {"empty", {0, 5}}, {"b", {20000}, 0, 0, false}, {"c", {1}}}, 4);
  EXPECT_EQ(layout.numel(), 21 + 20000 + 1);
  EXPECT_EQ(layout.chunk_count(), 2);
  EXPECT_EQ(layout.chunk(1).length, layout.numel() - kChunkElements);
  const auto runs = layout.decay_runs(0);
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_TRUE(runs[0].decays);
  EXPECT_EQ(runs[0].extent.length, 21);
  EXPECT_FALSE(runs[1].decays);
  EXPECT_EQ(runs[1].extent.end(), kChunkElements);
  EXPECT_TRUE(layout.decay_runs(1).back().decays);
}

TEST(Buckets, AreWholeChunksAndAtLeastOne) {
  const FlatLayout layout({{"a", {100000}}}, 4);
  EXPECT_EQ(make_buckets(layout, 1).size(), 7u);
  EXPECT_EQ(make_buckets(layout, 1 << 30).size(), 1u);
  const auto buckets = make_buckets(layout, 3 * kChunkElements * 4);
  ASSERT_EQ(buckets.size(), 3u);
  EXPECT_EQ(buckets[2].chunk_count, 1);
  EXPECT_EQ(buckets[2].extent.end(), 100000);
}

/// The definition, written down a second time: the sum of node (level, index).
float tree_sum(const std::vector<float>& leaves, int32_t level, int32_t index) {
  const auto count = static_cast<int32_t>(leaves.size());
  if (level == 0) return leaves[static_cast<size_t>(index)];
  const int32_t right_first = (2 * index + 1) << (level - 1);
  const float left = tree_sum(leaves, level - 1, 2 * index);
  return right_first < count ? left + tree_sum(leaves, level - 1, 2 * index + 1) : left;
}

TEST(ReductionTree, AnyPartitionGivesTheBitsOfTheTree) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 1);
  for (int32_t count = 1; count <= 24; ++count) {
    std::vector<float> leaves(static_cast<size_t>(count));
    for (float& x : leaves) x = normal(random) * std::pow(10.0f, normal(random));
    const float expected = tree_sum(leaves, root_level(count), 0);
    for (int trial = 0; trial < 20; ++trial) {
      // Deal the micro-batches out to random workers; each adds up what it can, then all are
      // merged.
      const int workers = 1 + static_cast<int>(random() % 5);
      std::vector<std::vector<int32_t>> sets(static_cast<size_t>(workers));
      for (int32_t m = 0; m < count; ++m) sets[random() % sets.size()].push_back(m);
      std::vector<TreeNode> nodes;
      std::vector<float> values;
      for (const auto& set : sets) {
        std::vector<TreeNode> mine;
        std::vector<const float*> inputs;
        for (int32_t m : set) {
          mine.push_back({0, m});
          inputs.push_back(&leaves[static_cast<size_t>(m)]);
        }
        const MergePlan plan = plan_merges(mine, count);
        std::vector<float> sums(plan.results.size());
        std::vector<float*> results;
        for (float& sum : sums) results.push_back(&sum);
        execute_merges(plan, inputs, results, 1);
        EXPECT_LE(plan.results.size(), std::max<size_t>(1, set.size()));
        for (size_t k = 0; k < sums.size(); ++k) {
          nodes.push_back(plan.results[k].node);
          values.push_back(sums[k]);
        }
      }
      const MergePlan plan = plan_merges(nodes, count);
      ASSERT_EQ(plan.results.size(), 1u);
      std::vector<const float*> inputs;
      for (const float& value : values) inputs.push_back(&value);
      float sum = 0;
      float* result = &sum;
      execute_merges(plan, inputs, {&result, 1}, 1);
      EXPECT_EQ(sum, expected) << count << " micro-batches";
    }
  }
}

TEST(ReductionTree, AContiguousRangeNeedsFewSubtrees) {
  std::vector<int32_t> range(20);
  std::iota(range.begin(), range.end(), 5);
  EXPECT_LE(maximal_nodes(range, 64).size(), 10u);
  std::iota(range.begin(), range.end(), 0);
  EXPECT_EQ(maximal_nodes(std::span(range).first(16), 64).size(), 1u);
}

TEST(Assignment, EveryMicroBatchOnceForAnySize) {
  for (Strategy strategy : kStrategies) {
    for (int32_t count : {1, 5, 8, 12}) {
      for (int world = 1; world <= count + 2; ++world) {
        const Assignment assignment = make_assignment(
            strategy, count, first_decision(strategy, world, count, 16), world, world, true);
        std::vector<int> seen(static_cast<size_t>(count));
        size_t least = 99, most = 0;
        for (const auto& list : assignment.computes) {
          for (int32_t m : list) ++seen[static_cast<size_t>(m)];
          least = std::min(least, list.size());
          most = std::max(most, list.size());
        }
        EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), count);
        EXPECT_LE(most - least, 1u);
        std::vector<TreeNode> sent;
        for (int round = 0; round < assignment.rounds(); ++round) {
          for (int r = 0; r < world; ++r) {
            for (TreeNode node : assignment.contributions(Rank(r), round)) sent.push_back(node);
          }
        }
        EXPECT_EQ(plan_merges(sent, count).results.size(), 1u);
      }
    }
  }
}

}  // namespace
}  // namespace craton::parallel
