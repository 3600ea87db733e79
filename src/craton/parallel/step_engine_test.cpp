#include "craton/parallel/step_engine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <thread>

#include "craton/base/bf16.h"
#include "craton/base/philox.h"

namespace craton::parallel {
namespace {

/// A job without a model: gradients come from a counter-based generator, so every worker can make
/// those of any micro-batch.
struct Job {
  Strategy strategy = Strategy::kDdp;
  int workers = 1;
  int32_t micro_batches = 8;
  int shards = 16;
  uint64_t bucket_bytes = 256 << 10;
  comm::TransportChoice transport = comm::TransportChoice::kSharedMemory;
  double clip_norm = 1;
  int64_t steps = 3;
  int64_t nan_step = 0;  ///< one gradient element is NaN in this step
  int32_t nan_micro_batch = 5;
  double gradient_scale = 1;
  bool reverse_delivery = false;
  int backups = 0;
  int shard_group = 0;
  ParameterType parameters = ParameterType::kFp32;
};

struct Ending {
  std::string digest;
  std::vector<StepResult> results;
  std::vector<float> parameters;
};

std::vector<ParameterSlot> slots() {
  return {{"embed", {37, 129}},
          {"empty", {0, 4}},
          {"block.weight", {300, 301}},
          {"block.bias", {300}, 0, 0, false},
          {"head", {11}},
          {"scalar", {}}};
}

float gradient_of(int64_t step, int32_t m, int64_t element) {
  const Philox random(3, RandomPurpose::kTest, static_cast<uint64_t>(step),
                      static_cast<uint32_t>(m));
  return (random.uniform(static_cast<uint64_t>(element)) - 0.45f) *
         std::ldexp(1.0f, static_cast<int>(element % 9) - 4);
}

std::vector<float> rounded(std::vector<float> values) {
  std::vector<uint16_t> bits(values.size());
  round_to_bf16(values, bits.data());
  expand_bf16(bits, values.data());
  return values;
}

Ending run_worker(const Job& job, comm::Endpoint& endpoint, const comm::Group& group) {
  const FlatLayout layout(slots(), job.shards);
  const bool bf16 = job.parameters == ParameterType::kBf16;
  const bool sharded = shards_parameters(job.strategy) || bf16;
  ShardedState state(layout, endpoint, sharded ? Kept::kHeld : Kept::kAll, job.parameters);
  std::vector<float> initial;
  for (int64_t i = 0; i < layout.numel(); ++i) initial.push_back(gradient_of(0, 0, i));
  const std::vector<float> given = bf16 ? rounded(initial) : initial;
  GradientBuffers gradients(layout, make_buckets(layout, job.bucket_bytes), endpoint,
                            job.micro_batches);
  const auto communicator = endpoint.join(group);
  Ending ending;
  {
    StepProgress progress;
    StepEngine engine(state, gradients, progress, *communicator, job.strategy,
                      first_decision(job.strategy, job.workers, job.micro_batches, job.shards,
                                     job.backups, job.shard_group),
                      job.workers);
    engine.hold_shards();
    state.set_parameters(0, initial);
    std::vector<float> read(sharded ? initial.size() : 0);
    const auto read_all = [&] { engine.windows()->read({0, layout.numel()}, read.data()); };
    engine.restored(Step(0), 0);
    StepWork work;
    work.rule.clip_norm = job.clip_norm;
    engine.enter(work.rule);
    for (int64_t t = 1; t <= job.steps; ++t) {
      work.compute = [&](int32_t m) {
        if (sharded) read_all();
        EXPECT_TRUE(!sharded || t > 1 || read == given);
        std::vector<float> gradient;
        const auto count = static_cast<int>(layout.slots().size());
        for (int k = 0; k < count; ++k) {
          const size_t slot = static_cast<size_t>(job.reverse_delivery ? count - 1 - k : k);
          if (layout.slots()[slot].name == "head" && m % 2 == 1)
            continue;  // not every micro-batch uses every parameter
          gradient.clear();
          for (int64_t i = 0; i < layout.slots()[slot].numel; ++i) {
            gradient.push_back(gradient_of(t, m, layout.slots()[slot].offset + i) *
                               static_cast<float>(job.gradient_scale));
          }
          if (t == job.nan_step && m == job.nan_micro_batch && slot == 2)
            gradient[77] = std::numeric_limits<float>::quiet_NaN();
          gradients.deliver(slot, gradient.data());
        }
        return 1.0 / (m + 1.0 + static_cast<double>(t));
      };
      ending.results.push_back(engine.run(Step(t), work));
    }
    if (sharded) read_all();
    ending.digest = engine.state_digest(Step(job.steps));
    ending.parameters = read;
  }
  if (!sharded) ending.parameters.assign(state.parameters().begin(), state.parameters().end());
  return ending;
}

/// Runs a job with one thread per worker and checks that all workers agree.
Ending run_job(const Job& job) {
  std::vector<std::unique_ptr<comm::Endpoint>> endpoints;
  comm::Group group;
  group.generation = Generation(1);
  for (int r = 0; r < job.workers; ++r) {
    comm::EndpointOptions options;
    options.transport = job.transport;
    endpoints.push_back(std::make_unique<comm::Endpoint>(options));
    group.members.push_back(endpoints.back()->address());
  }
  std::vector<Ending> endings(static_cast<size_t>(job.workers));
  std::vector<std::thread> threads;
  for (int r = 0; r < job.workers; ++r) {
    threads.emplace_back([&, r] {
      comm::Group own = group;
      own.self = Rank(r);
      endings[static_cast<size_t>(r)] = run_worker(job, *endpoints[static_cast<size_t>(r)], own);
    });
  }
  for (auto& thread : threads) thread.join();
  for (const Ending& ending : endings) {
    EXPECT_EQ(ending.digest, endings[0].digest);
    EXPECT_EQ(ending.parameters, endings[0].parameters);
  }
  return endings[0];
}

const Ending& quiet_run() {
  static const Ending ending = run_job({});
  return ending;
}

TEST(StepEngine, StrategiesSizesAndTransportsEndWithTheSameBits) {
  for (comm::TransportChoice transport :
       {comm::TransportChoice::kSharedMemory, comm::TransportChoice::kTcp}) {
    for (Strategy strategy : kStrategies) {
      for (int workers : {1, 2, 3, 4, 8}) {
        Job job;
        job.strategy = strategy;
        job.workers = workers;
        job.transport = transport;
        const Ending ending = run_job(job);
        EXPECT_EQ(ending.digest, quiet_run().digest)
            << to_string(strategy) << " with " << workers << " workers";
        EXPECT_EQ(ending.results.back().gradient_norm, quiet_run().results.back().gradient_norm);
        EXPECT_EQ(ending.results.back().loss, quiet_run().results.back().loss);
      }
    }
  }
}

TEST(StepEngine, BucketsAndShardsAndOrderOfDeliveryDoNotChangeBits) {
  for (Strategy strategy : {Strategy::kDdp, Strategy::kZero2, Strategy::kZero3}) {
    for (uint64_t bucket_bytes : {uint64_t{1}, uint64_t{130000}, uint64_t{1} << 30}) {
      for (int shards : {1, 5, 64}) {
        Job job;
        job.strategy = strategy;
        job.workers = 3;
        job.shards = shards;
        job.bucket_bytes = bucket_bytes;
        job.reverse_delivery = shards == 5;
        EXPECT_EQ(run_job(job).digest, quiet_run().digest);
      }
    }
  }
}

TEST(StepEngine, BackupsDoNotChangeBits) {
  for (Strategy strategy : {Strategy::kZero1, Strategy::kZero2, Strategy::kZero3}) {
    for (int backups : {1, 2}) {
      Job job;
      job.strategy = strategy;
      job.workers = 4;
      job.backups = backups;
      job.steps = 12;  // past the first comparison of copies
      Job plain = job;
      plain.backups = 0;
      plain.workers = 1;
      EXPECT_EQ(run_job(job).digest, run_job(plain).digest);
    }
  }
}

TEST(StepEngine, Bf16ReachesTheModelAndFp32IsUpdated) {
  for (comm::TransportChoice transport :
       {comm::TransportChoice::kSharedMemory, comm::TransportChoice::kTcp}) {
    for (Strategy strategy : kStrategies) {
      for (int workers : {1, 3}) {
        Job job;
        job.strategy = strategy;
        job.workers = workers;
        job.transport = transport;
        job.parameters = ParameterType::kBf16;
        const Ending ending = run_job(job);
        // These gradients do not depend on the parameters, so the master weights are the same.
        EXPECT_EQ(ending.digest, quiet_run().digest) << to_string(strategy) << " " << workers;
        EXPECT_EQ(ending.parameters, rounded(quiet_run().parameters));
      }
    }
  }
}

TEST(StepEngine, HybridShardingHoldsACopyPerGroupAndDoesNotChangeBits) {
  for (Strategy strategy : {Strategy::kZero1, Strategy::kZero3}) {
    for (int group : {1, 2, 3}) {
      Job job;
      job.strategy = strategy;
      job.workers = 4;
      job.shard_group = group;
      EXPECT_EQ(run_job(job).digest, quiet_run().digest) << "groups of " << group;
      const auto decision = first_decision(strategy, 4, 8, 16, 0, group);
      for (const auto& holders : decision.placement.holders)
        EXPECT_EQ(holders.size(), static_cast<size_t>(4 / group));
    }
  }
}

TEST(StepEngine, EqualsAnUpdateWrittenDown) {
  // One step, one worker, in double: mean gradient, clipped, AdamW.
  Job job;
  job.steps = 1;
  const Ending ending = run_job(job);
  const FlatLayout layout(slots(), job.shards);
  std::vector<double> mean(static_cast<size_t>(layout.numel()), 0);
  double square = 0;
  for (int64_t i = 0; i < layout.numel(); ++i) {
    const bool head =
        i >= layout.slots()[4].offset && i < layout.slots()[4].offset + layout.slots()[4].numel;
    for (int32_t m = 0; m < job.micro_batches; ++m) {
      if (!head || m % 2 == 0)
        mean[static_cast<size_t>(i)] += double{gradient_of(1, m, i)} / job.micro_batches;
    }
    square += mean[static_cast<size_t>(i)] * mean[static_cast<size_t>(i)];
  }
  const double norm = std::sqrt(square);
  EXPECT_NEAR(ending.results[0].gradient_norm, norm, 1e-6 * norm);
  const UpdateRule rule;
  for (int64_t i = 0; i < layout.numel(); i += 7) {
    const double g = mean[static_cast<size_t>(i)] * std::min(1.0, 1.0 / norm);
    const bool decays = i < layout.slots()[3].offset || i >= layout.slots()[4].offset;
    double p = gradient_of(0, 0, i);
    p -= rule.learning_rate * (decays ? rule.weight_decay * p : 0);
    p -= rule.learning_rate * g / (std::abs(g) + rule.epsilon);
    EXPECT_NEAR(ending.parameters[static_cast<size_t>(i)], p, 2e-6 * std::max(1.0, std::abs(p)))
        << i;
  }
}

// DeepSpeed 7188, 8415: a NaN on one worker must skip the step on all, say so, and change nothing.
TEST(StepEngine, ANonFiniteGradientSkipsTheStepOnAllWorkers) {
  std::map<std::string, std::string> digests;
  for (Strategy strategy : kStrategies) {
    for (int workers : {1, 2, 4}) {
      Job job;
      job.strategy = strategy;
      job.workers = workers;
      job.nan_step = 2;
      const Ending ending = run_job(job);
      EXPECT_TRUE(ending.results[0].applied);
      EXPECT_FALSE(ending.results[1].applied);
      EXPECT_FALSE(std::isfinite(ending.results[1].gradient_norm));
      EXPECT_TRUE(ending.results[2].applied);
      for (float p : ending.parameters) ASSERT_TRUE(std::isfinite(p));
      digests[ending.digest] = to_string(strategy);
    }
  }
  EXPECT_EQ(digests.size(), 1u);
  Job only_bad;
  only_bad.steps = 1;
  only_bad.nan_step = 1;
  const Ending untouched = run_job(only_bad);
  for (size_t i = 0; i < untouched.parameters.size(); ++i)
    ASSERT_EQ(untouched.parameters[i], gradient_of(0, 0, static_cast<int64_t>(i)));
}

TEST(StepEngine, AnInfiniteNormSkipsAndAZeroGradientDoesNot) {
  Job huge;
  huge.gradient_scale = 1e38;
  huge.steps = 1;
  huge.workers = 2;
  EXPECT_FALSE(run_job(huge).results[0].applied);
  Job zero;
  zero.gradient_scale = 0;
  zero.workers = 2;
  const Ending ending = run_job(zero);
  EXPECT_TRUE(ending.results[0].applied);
  EXPECT_EQ(ending.results[0].gradient_norm, 0);
  for (float p : ending.parameters) ASSERT_TRUE(std::isfinite(p));
}

TEST(StepEngine, EveryParameterMoves) {
  Job job;
  job.workers = 4;
  job.strategy = Strategy::kZero2;
  const Ending ending = run_job(job);
  for (size_t i = 0; i < ending.parameters.size(); ++i)
    ASSERT_NE(ending.parameters[i], gradient_of(0, 0, static_cast<int64_t>(i))) << i;
}

}  // namespace
}  // namespace craton::parallel
