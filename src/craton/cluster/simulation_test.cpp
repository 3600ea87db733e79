#include <fmt/format.h>
#include <gtest/gtest.h>

#include "craton/testing/simulated_cluster.h"

namespace craton::testing {
namespace {

#ifdef NDEBUG
constexpr int kSchedules = 6000;
#else
constexpr int kSchedules = 300;
#endif

/// Strategies, redundancy and placement of workers on nodes, in turn.
SimulationOptions schedule(uint64_t seed) {
  SimulationOptions options{.seed = seed, .faults = 6, .changes = 3, .fault_one_in = 30};
  switch (seed % 6) {
    case 1:  // zero2
      options.keeps_sums = false;
      break;
    case 2:  // ddp
      options.shape.replicate_all = true;
      break;
    case 3:
      options.shape.backups = 2;
      options.workers = 4;
      options.max_workers = 5;
      break;
    case 4:  // two workers on each node: a node is one failure domain
      options.nodes = 2;
      options.workers = 4;
      break;
    case 5:
      options.nodes = 1;
      options.spares = 1;
      options.shape.backups = seed % 12 < 6 ? 1 : 0;
      break;
    default:
      break;
  }
  return options;
}

TEST(Simulation, AQuietRunEnds) {
  for (uint64_t seed = 1; seed <= 24; ++seed) {
    SimulationOptions options = schedule(seed);
    options.faults = options.changes = 0;
    const SimulationResult result = simulate(options);
    ASSERT_FALSE(result.violation) << *result.violation;
    EXPECT_EQ(result.commits, 4);
    EXPECT_EQ(result.generations, 1);
    EXPECT_EQ(result.losses, 0);
  }
}

TEST(Simulation, PlannedChangesRecomputeNothing) {
  int generations = 0;
  for (uint64_t seed = 1; seed <= 600; ++seed) {
    SimulationOptions options = schedule(seed);
    options.faults = 0;
    options.changes = 4;
    const SimulationResult result = simulate(options);
    ASSERT_FALSE(result.violation) << *result.violation;
    ASSERT_EQ(result.losses, 0) << "seed " << seed;
    ASSERT_EQ(result.commits, 4);
    generations += result.generations - 1;
  }
  EXPECT_GT(generations, 300);
}

TEST(Simulation, FaultsInAllPlacesKeepOneHistory) {
  SimulationResult sum;
  for (uint64_t seed = 1; seed <= kSchedules; ++seed) {
    const SimulationResult result = simulate(schedule(seed));
    ASSERT_FALSE(result.violation) << *result.violation;
    sum.roll_forwards += result.roll_forwards;
    sum.recomputations += result.recomputations;
    sum.losses += result.losses;
    sum.generations += result.generations;
    ASSERT_LE(result.largest_state, 40u) << "seed " << seed;
  }
  // The schedules reach all branches of the decision, often.
  EXPECT_GT(sum.roll_forwards, kSchedules / 4);
  EXPECT_GT(sum.recomputations, kSchedules / 2);
  EXPECT_GT(sum.losses, kSchedules / 50);
  EXPECT_GT(sum.generations, kSchedules * 3);
}

// The sizes of steps follow those of the job; each step keeps its own, and each micro-batch is of
// one step (`simulate` checks both).
TEST(Simulation, TheBatchFollowsTheSizeThroughFaultsInAllPlaces) {
  SimulationResult sum;
  int losses_in_quiet = 0;
  for (uint64_t seed = 1; seed <= kSchedules / 2; ++seed) {
    SimulationOptions options = schedule(seed);
    options.shape.micro_batches = 4;
    options.shape.reference = 2;
    options.steps = 6;
    if (seed % 4 == 0) options.faults = 0;
    const SimulationResult result = simulate(options);
    ASSERT_FALSE(result.violation) << *result.violation;
    if (options.faults == 0) losses_in_quiet += result.losses;
    sum.losses += result.losses;
    sum.roll_forwards += result.roll_forwards;
    sum.resized_steps += result.resized_steps;
  }
  EXPECT_EQ(losses_in_quiet, 0);
  EXPECT_GT(sum.losses, 10);
  EXPECT_GT(sum.roll_forwards, kSchedules / 8);
  EXPECT_GT(sum.resized_steps, kSchedules / 2);
}

// Sizes are even, as where two workers share each window.
TEST(Simulation, WhoIsLeftOverStaysThroughFaultsInAllPlaces) {
  SimulationResult sum;
  for (uint64_t seed = 1; seed <= kSchedules / 2; ++seed) {
    SimulationOptions options = schedule(seed);
    options.increment = 2;
    options.workers = 4;
    options.max_workers = 6;
    if (seed % 4 == 0) options.faults = 0;
    const SimulationResult result = simulate(options);
    ASSERT_FALSE(result.violation) << *result.violation;
    if (options.faults == 0) {
      ASSERT_EQ(result.losses, 0) << "seed " << seed;
    }
    ASSERT_LE(result.largest_state, 40u) << "seed " << seed;
    sum.roll_forwards += result.roll_forwards;
    sum.recomputations += result.recomputations;
    sum.rests += result.rests;
  }
  EXPECT_GT(sum.roll_forwards, kSchedules / 8);
  EXPECT_GT(sum.recomputations, kSchedules / 4);
  EXPECT_GT(sum.rests, kSchedules / 8);
}

TEST(Simulation, OneFaultNeverCostsAStep) {
  for (uint64_t seed = 1; seed <= kSchedules / 2; ++seed) {
    SimulationOptions options = schedule(seed * 6 + seed % 5);  // all but the case without backups
    options.faults = 1;
    options.changes = 0;
    const SimulationResult result = simulate(options);
    ASSERT_FALSE(result.violation) << *result.violation;
    ASSERT_EQ(result.losses, 0) << "seed " << seed;
    ASSERT_EQ(result.commits, 4);
  }
}

TEST(Simulation, ThousandsOfChangesLeaveTheOperatorSmall) {
  SimulationOptions options{
      .seed = 3, .steps = 1500, .faults = 1500, .changes = 1500, .fault_one_in = 60};
  options.operator_faults = false;  // a restart would forget what might have piled up
  const SimulationResult result = simulate(options);
  ASSERT_FALSE(result.violation) << *result.violation;
  EXPECT_GT(result.generations, 1000);
  EXPECT_LE(result.largest_state, 60u);
}

/// Takes one rule out and looks for a schedule in which an invariant breaks. If none breaks, the
/// rule or the simulation is not needed.
class MutationTest : public ::testing::TestWithParam<int> {};

TEST_P(MutationTest, IsNoticed) {
  for (uint64_t seed = 1; seed <= 12000; ++seed) {
    SimulationOptions options = schedule(seed);
    options.fault_one_in = seed / 6 % 2 ? 30 : 60;
    options.mutation = static_cast<Mutation>(GetParam());
    if (simulate(options).violation) return;
  }
  FAIL() << "no schedule of 12000 shows the missing rule";
}

INSTANTIATE_TEST_SUITE_P(Rules, MutationTest, ::testing::Range(1, kMutations),
                         [](const auto& info) {
                           return std::string(mutation_name(static_cast<Mutation>(info.param)));
                         });

}  // namespace
}  // namespace craton::testing
