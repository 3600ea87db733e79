#include "craton/cluster/strategy_costs.h"

#include <gtest/gtest.h>

#include "craton/base/error.h"

namespace craton::cluster {
namespace {

/// The model and machine of the published comparison: 1.88 B parameters (48 + 8 blocks), 16 nodes
/// of 8 accelerators, sustained 400 TFLOP/s, 450 GB/s within a node, 50 GB/s between nodes.
ModelCosts big_model() { return {1.88e9, 56, 12, 6 * 1.88e9 * 102400 * 0.3, 0}; }
WorkerCosts accelerator() { return {4e14, 141e9, 8, 450e9, 50e9, 10e-6}; }

TEST(StrategyCosts, MemoryIsThatOfTheFormulas) {
  const ModelCosts model{1e6, 10, 12, 1e9, 0};
  const WorkerCosts worker{1e9, 0, 8, 1e9, 1e9};
  const StepCosts step{2, 2};
  EXPECT_DOUBLE_EQ(strategy_costs("ddp", model, worker, step, 4).memory_bytes, 20e6);
  EXPECT_DOUBLE_EQ(strategy_costs("zero1", model, worker, step, 4).memory_bytes, 8e6 + 3e6);
  EXPECT_DOUBLE_EQ(strategy_costs("zero2", model, worker, step, 4).memory_bytes, 4e6 + 3e6 + 2e6);
  EXPECT_DOUBLE_EQ(strategy_costs("zero3", model, worker, step, 4).memory_bytes, 4e6 + 2e6 + 0.8e6);
}

TEST(StrategyCosts, OneWorkerSendsNothing) {
  for (const char* strategy : {"ddp", "zero1", "zero2", "zero3", "fsdp"}) {
    const auto c = strategy_costs(strategy, big_model(), accelerator(), {8, 2}, 1);
    EXPECT_EQ(c.sent_bytes, 0) << strategy;
    EXPECT_EQ(c.efficiency, 1) << strategy;
  }
  EXPECT_THROW(strategy_costs("zero9", big_model(), accelerator(), {}, 2), Error);
}

TEST(StrategyCosts, HaveTheShapeOfThePublishedComparison) {
  const StepCosts step{1, 1, 0, 2, 2};
  const auto of = [&](const char* system) {
    return published_costs(system, big_model(), accelerator(), step, 128);
  };
  const auto zero2 = of("ZeRO-2"), fsdp = of("FSDP2"), zero3 = of("ZeRO-3");
  EXPECT_GT(zero2.samples_per_second, fsdp.samples_per_second);
  EXPECT_GT(fsdp.samples_per_second, zero3.samples_per_second);
  EXPECT_GE(zero2.efficiency, 0.90);
  EXPECT_LE(zero2.efficiency, 0.99);
  EXPECT_NEAR(zero2.memory_bytes - 4 * 5e8, 3.96e9, 0.02e9);
}

TEST(StrategyCosts, WhatDoesNotFitIsNotRecommended) {
  ModelCosts model = big_model();
  WorkerCosts worker = accelerator();
  std::vector<StrategyCosts> costs;
  worker.memory_bytes = 10e9;
  for (const char* strategy : {"ddp", "zero1", "zero2", "zero3"})
    costs.push_back(strategy_costs(strategy, model, worker, {8, 1}, 16));
  EXPECT_FALSE(costs[0].fits);
  const auto choice = recommend(costs);
  EXPECT_TRUE(choice.strategy == "zero2" || choice.strategy == "zero3") << choice.reason;
  worker.memory_bytes = 1e9;
  costs = {strategy_costs("zero3", model, worker, {8, 1}, 2)};
  EXPECT_EQ(recommend(costs).strategy, "");
}

}  // namespace
}  // namespace craton::cluster
