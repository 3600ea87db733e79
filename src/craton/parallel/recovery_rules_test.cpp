// The rules of docs/decisions/0002 in the code that workers run: each test looks at one of them in
// the middle of the protocol, and fails when the rule is taken out (tools/mutate).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <thread>

#include "craton/base/error.h"
#include "craton/base/fault_point.h"
#include "craton/base/philox.h"
#include "craton/cluster/recovery_decision.h"
#include "craton/parallel/step_engine.h"
#include "craton/runtime/memory.h"

namespace craton::parallel {
namespace {

constexpr int kShards = 8;
constexpr int32_t kMicroBatches = 8;

enum class Way { kSend, kReceive };

/// What a worker is about to say or hear.
struct Moment {
  Way way;
  Phase phase;
  Rank peer;
};

Phase phase_of(uint64_t operation) { return static_cast<Phase>(operation >> 28 & 0xF); }

/// Calls `watch` before each message; what it throws breaks the worker off there.
class WatchedCommunicator : public comm::Communicator {
 public:
  using Watch = std::function<void(const Moment&)>;
  WatchedCommunicator(comm::Communicator& real, Watch watch)
      : real_(real), watch_(std::move(watch)) {}
  Generation generation() const override { return real_.generation(); }
  Rank rank() const override { return real_.rank(); }
  int world_size() const override { return real_.world_size(); }
  std::unique_ptr<comm::PendingSend> send(
      Rank to, uint64_t operation, std::span<const std::span<const std::byte>> pieces) override {
    watch_({Way::kSend, phase_of(operation), to});
    return real_.send(to, operation, pieces);
  }
  std::unique_ptr<comm::Message> receive(Rank from, uint64_t operation) override {
    watch_({Way::kReceive, phase_of(operation), from});
    return real_.receive(from, operation);
  }
  void abort() override { real_.abort(); }
  void check() override { real_.check(); }
  void set_timeout(std::chrono::milliseconds timeout) override { real_.set_timeout(timeout); }
  comm::Traffic traffic() const override { return real_.traffic(); }

 private:
  comm::Communicator& real_;
  const Watch watch_;
};

float value_of(int64_t step, int32_t m, int64_t element) {
  const Philox random(9, RandomPurpose::kTest, static_cast<uint64_t>(step),
                      static_cast<uint32_t>(m));
  return random.uniform(static_cast<uint64_t>(element)) - 0.45f;
}

const FlatLayout& layout() {
  static const FlatLayout value({{"weight", {300, 601}}, {"bias", {300}, 0, 0, false}}, kShards);
  return value;
}

/// A worker without a process: what it keeps over generations.
struct Worker {
  explicit Worker(int number)
      : number(number),
        state(layout(), endpoint),
        gradients(layout(), make_buckets(layout(), 256 << 10), endpoint, kMicroBatches) {}

  cluster::Report report(Generation generation) const {
    cluster::Report report = make_report(state, gradients, progress, strategy);
    report.worker = cluster::WorkerId(endpoint.address().incarnation);
    report.generation = generation;
    return report;
  }
  std::vector<float> values() { return {state.parameters().begin(), state.parameters().end()}; }

  int number;
  Strategy strategy = Strategy::kZero1;
  comm::Endpoint endpoint;
  ShardedState state;
  GradientBuffers gradients;
  StepProgress progress;
  std::string error;  ///< what ended its last generation
  std::string digest;
};

/// Several workers as threads, with the operator's decisions.
class RecoveryRules : public testing::Test {
 protected:
  using Watch = std::function<void(Worker& worker, const Moment& moment)>;

  void TearDown() override { arm_faults(""); }

  Worker& add_worker() {
    workers_.push_back(std::make_unique<Worker>(static_cast<int>(workers_.size())));
    return *workers_.back();
  }
  Worker& worker(int number) { return *workers_[static_cast<size_t>(number)]; }

  /// The next generation with these workers, of whom the last `leaving` leave; trains until `steps`
  /// are done or everybody is broken off.
  cluster::Decision run(const std::vector<int>& members, int64_t steps, const Watch& watch = {},
                        int leaving = 0, bool planned = false) {
    generation_ = generation_.next();
    const int training = static_cast<int>(members.size()) - leaving;
    cluster::Membership membership{generation_, planned, {}};
    std::vector<cluster::Report> reports;
    comm::Group group;
    group.generation = generation_;
    for (size_t r = 0; r < members.size(); ++r) {
      const Worker& w = worker(members[r]);
      group.members.push_back(w.endpoint.address());
      reports.push_back(w.report(generation_));
      membership.members.push_back(
          {{reports.back().worker, "node-" + std::to_string(w.number), "", ""},
           static_cast<int>(r) < training ? cluster::Role::kTraining : cluster::Role::kLeaving});
    }
    const cluster::Decision decision =
        cluster::complete_decision(shape_, membership, reports, cluster::judge(kShards, reports),
                                   primaries_, {Step(0)}, sizes_);
    if (shape_.reference > 0) cluster::note_sizes(decision, sizes_);
    primaries_.clear();
    for (const auto& holders : decision.placement.holders)
      primaries_.push_back(membership.members[static_cast<size_t>(holders[0].value())].worker.id);
    std::vector<std::thread> threads;
    for (size_t r = 0; r < members.size(); ++r) {
      threads.emplace_back([&, r] {
        comm::Group own = group;
        own.self = Rank(static_cast<int32_t>(r));
        train(worker(members[r]), own, decision, training, steps, watch);
      });
    }
    for (auto& thread : threads) thread.join();
    return decision;
  }

  /// The digest of an undisturbed run of so many steps.
  static std::string quiet(int64_t steps) {
    RecoveryRules alone;
    alone.add_worker();
    alone.run({0}, steps);
    return alone.worker(0).digest;
  }
  void TestBody() override {}

  cluster::JobShape shape_{kShards, kMicroBatches, 1, false};

  /// Steps of 2 micro-batches a worker.
  void let_the_batch_follow_the_size() {
    shape_.micro_batches = 4;
    shape_.reference = 2;
  }

  static void break_off() {
    throw Error(ErrorCode::kGenerationEnded, "broken off", Reaction::kReconfigure);
  }

 private:
  static void train(Worker& w, const comm::Group& group, const cluster::Decision& decision,
                    int training, int64_t steps, const Watch& watch) {
    w.error.clear();
    w.digest.clear();
    const auto real = w.endpoint.join(group);
    WatchedCommunicator communicator(*real, [&](const Moment& moment) {
      if (watch) watch(w, moment);
    });
    try {
      StepEngine engine(w.state, w.gradients, w.progress, communicator, w.strategy, decision,
                        training);
      if (decision.kind == cluster::DecisionKind::kRestore) {
        engine.hold_shards();
        for (int64_t i = 0; i < layout().numel(); ++i)
          w.state.parameters()[static_cast<size_t>(i)] = value_of(0, 0, i);
        engine.restored(Step(0), 0);
      }
      StepWork work;
      work.compute = [&](int32_t m) {
        std::vector<float> gradient;
        for (size_t slot = 0; slot < layout().slots().size(); ++slot) {
          gradient.clear();
          // It depends on the parameters, as a model's does.
          for (int64_t i = 0; i < layout().slots()[slot].numel; ++i) {
            const int64_t at = layout().slots()[slot].offset + i;
            gradient.push_back(value_of(1, static_cast<int32_t>(w.progress.position) + m, at) +
                               0.1f * w.state.parameters()[static_cast<size_t>(at)]);
          }
          w.gradients.deliver(slot, gradient.data());
        }
        return 1.0 + m;
      };
      engine.enter(work.rule);
      while (w.progress.step.value() < steps) {
        engine.run(w.progress.step.next(), work);
        if (group.self.value() >= training) return;
      }
      w.digest = engine.state_digest(w.progress.step);
    } catch (const Error& e) {
      w.error = e.what();
      real->abort();
    }
  }

  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<cluster::WorkerId> primaries_;
  cluster::StepSizes sizes_;
  Generation generation_{0};
};

/// Breaks every worker off when it is about to hear the first part of the commit of a step: all
/// slots are acknowledged, nobody has applied.
std::function<void(Worker&, const Moment&)> before_the_commit_of(int64_t step) {
  return [step](Worker& w, const Moment& moment) {
    if (moment.way == Way::kReceive && moment.phase == Phase::kCommit &&
        w.progress.step.value() + 1 == step)
      throw Error(ErrorCode::kGenerationEnded, "broken off", Reaction::kReconfigure);
  };
}

TEST_F(RecoveryRules, TheCommitIsEnteredWithAllAcknowledgements) {
  for (int w : {0, 1, 2}) add_worker().number = w;
  std::array<int, 3> acknowledgements{};
  run({0, 1, 2}, 1, [&](Worker& w, const Moment& moment) {
    int& count = acknowledgements[static_cast<size_t>(w.number)];
    if (moment.way == Way::kReceive && moment.phase == Phase::kAcknowledge) ++count;
    // With three workers and one backup, both others back up some shard of each.
    if (moment.way == Way::kSend && moment.phase == Phase::kCommit) EXPECT_EQ(count, 2);
  });
  EXPECT_EQ(worker(0).digest, quiet(1));
}

// R1
TEST_F(RecoveryRules, ARollForwardTransfersAndCommitsBeforeAnybodyApplies) {
  for (int w = 0; w < 3; ++w) add_worker();
  run({0, 1, 2}, 2, before_the_commit_of(2));
  for (int w = 0; w < 3; ++w) EXPECT_EQ(worker(w).progress.step, Step(1));
  std::atomic<int> transfers{0}, commits{0};
  const auto decision = run({0, 1}, 2, [&](Worker& w, const Moment& moment) {
    transfers += moment.phase == Phase::kTransfer && moment.way == Way::kReceive;
    commits += moment.phase == Phase::kCommit && moment.way == Way::kReceive;
    if (moment.phase == Phase::kEnter || moment.phase == Phase::kTransfer ||
        moment.phase == Phase::kCommit) {
      for (const auto& copy : w.state.copies())
        EXPECT_LE(copy.version, Step(1)) << "applied before the commit of its generation";
    }
    if (moment.phase == Phase::kCommit) {
      for (const auto& copy : w.state.copies())
        EXPECT_TRUE(copy.complete && copy.slot) << "a holder without state or slot at the commit";
    }
  });
  EXPECT_EQ(decision.kind, cluster::DecisionKind::kRollForward);
  EXPECT_GT(transfers, 0);
  EXPECT_EQ(commits, 2);
  EXPECT_EQ(worker(0).digest, quiet(2));
}

// R2
TEST_F(RecoveryRules, ACopyOnItsWayIsNoHolder) {
  for (int w = 0; w < 3; ++w) add_worker();
  run({0, 1, 2}, 1);
  run({0, 1}, 2, [&](Worker&, const Moment& moment) {
    if (moment.phase == Phase::kTransfer && moment.way == Way::kReceive) break_off();
  });
  // Two of three workers held each shard; a third of the shards is on its way to each.
  for (int w : {0, 1}) {
    int complete = 0;
    for (const auto& copy : worker(w).report(Generation(9)).copies) {
      complete += copy.complete;
      if (copy.complete) EXPECT_EQ(copy.version, Step(1)) << "shard " << copy.shard.value();
    }
    EXPECT_LT(complete, kShards);
    EXPECT_GE(complete, kShards / 2);
  }
  run({0, 1}, 2);
  EXPECT_EQ(worker(0).digest, quiet(2));
}

// R2: the receiver has the state and lacks the slot; until that is here it must not give up what it
// has.
TEST_F(RecoveryRules, ACopyThatLacksTheSlotStaysUntilTheSlotIsThere) {
  for (int w = 0; w < 2; ++w) add_worker();
  run({0, 1}, 2, before_the_commit_of(2));
  for (int32_t s = 0; s < kShards; ++s) worker(1).state.copy(ShardId(s)).slot.reset();
  const auto decision = run({0, 1}, 2, [&](Worker& w, const Moment& moment) {
    if (moment.phase == Phase::kTransfer && moment.way == Way::kReceive && w.number == 1)
      break_off();
  });
  EXPECT_EQ(decision.kind, cluster::DecisionKind::kRollForward);
  for (const auto& copy : worker(1).state.copies()) {
    EXPECT_TRUE(copy.complete) << "shard " << copy.shard.value();
    EXPECT_EQ(copy.version, Step(1));
  }
  run({1}, 2);  // the other one is lost: the step is computed again from what it has
  EXPECT_EQ(worker(1).digest, quiet(2));
}

TEST_F(RecoveryRules, ADamagedTransferIsNoticedAndChangesNothing) {
  for (int w = 0; w < 3; ++w) add_worker();
  run({0, 1, 2}, 1);
  arm_faults("transfer.received:flip");
  run({0, 1}, 2);
  EXPECT_THAT(worker(0).error + worker(1).error, testing::HasSubstr("wrong checksum"));
  run({0, 1}, 2);
  EXPECT_EQ(worker(0).digest, quiet(2));
}

// R3
TEST_F(RecoveryRules, AFencedWorkerChangesNothingAnyMore) {
  for (int w = 0; w < 2; ++w) add_worker();
  std::vector<cluster::Report> reports(2);
  run({0, 1}, 2, [&](Worker& w, const Moment& moment) {
    if (moment.phase != Phase::kCommit || moment.way != Way::kReceive || w.progress.step != Step(1))
      return;
    w.endpoint.fence(Generation(2));  // the operator has opened it; the worker reports and goes on
    reports[static_cast<size_t>(w.number)] = w.report(Generation(2));
  });
  for (int w : {0, 1}) {
    EXPECT_THAT(worker(w).error, testing::HasSubstr("left the generation"));
    EXPECT_EQ(worker(w).report(Generation(2)), reports[static_cast<size_t>(w)]);
  }
  run({0, 1}, 2);
  EXPECT_EQ(worker(0).digest, quiet(2));
}

// R4
TEST_F(RecoveryRules, ALeavingHolderKeepsItsCopiesUntilTheFirstCommit) {
  for (int w = 0; w < 3; ++w) add_worker();
  run({0, 1, 2}, 1);
  const size_t held = worker(2).state.copies().size();
  int acknowledgements = 0;
  const auto decision = run(
      {0, 1, 2}, 2,
      [&](Worker& w, const Moment& moment) {
        if (w.number != 2) return;
        acknowledgements += moment.phase == Phase::kAcknowledge && moment.way == Way::kSend;
        if (moment.phase == Phase::kCommit) {
          EXPECT_EQ(w.state.copies().size(), held);
          for (const auto& copy : w.state.copies()) EXPECT_TRUE(copy.slot.has_value());
        }
      },
      1);
  EXPECT_FALSE(decision.extras.empty());
  EXPECT_EQ(acknowledgements, 2);
  EXPECT_TRUE(worker(2).state.copies().empty());
  EXPECT_EQ(worker(0).digest, quiet(2));
}

// R5
TEST_F(RecoveryRules, TheResultOfACommitIsReportedUntilTheNext) {
  for (int w = 0; w < 3; ++w) add_worker();
  // Worker 0 hears the commit of step 2 and applies; the others do not.
  run({0, 1, 2}, 2, [&](Worker& w, const Moment& moment) {
    if (w.number == 0 ? moment.phase == Phase::kGather && w.progress.step == Step(2)
                      : moment.phase == Phase::kCommit && moment.way == Way::kReceive &&
                            w.progress.step == Step(1))
      break_off();
  });
  ASSERT_EQ(worker(0).progress.step, Step(2));
  const auto result = worker(0).report(Generation(2)).last_commit;
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->slot.step, Step(2));
  // It becomes the last commit of all who receive it, before they apply.
  const auto decision = run({0, 1, 2}, 2, [&](Worker& w, const Moment& moment) {
    if (moment.phase == Phase::kGather) EXPECT_EQ(w.progress.last_commit, result);
  });
  ASSERT_TRUE(decision.commit.has_value());
  EXPECT_EQ(decision.commit, result);
  EXPECT_EQ(worker(0).digest, quiet(2));
}

// R6
class RecoveryRulesDeathTest : public RecoveryRules {
 protected:
  /// Trains alone, loses a copy's completeness, and goes on.
  void acknowledge_an_incomplete_copy() {
    run({0}, 2);
    Worker& w = worker(0);
    w.state.copy(ShardId(3)).complete = false;
    cluster::Decision decision = first_decision(Strategy::kZero1, 1, kMicroBatches, kShards);
    decision.generation = Generation(2);
    const comm::Group group{Generation(2), {w.endpoint.address()}, Rank(0)};
    const auto communicator = w.endpoint.join(group);
    StepEngine engine(w.state, w.gradients, w.progress, *communicator, Strategy::kZero1, decision,
                      1);
    StepWork work;
    work.compute = [](int32_t) { return 1.0; };
    engine.run(Step(3), work);
  }
};

TEST_F(RecoveryRulesDeathTest, AnIncompleteCopyIsNeverAcknowledged) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  add_worker();
  EXPECT_DEATH(acknowledge_an_incomplete_copy(), "shard 3");
}

// R7
TEST_F(RecoveryRules, ARecomputationDropsTheSlotsOfTheAttemptBefore) {
  for (int w = 0; w < 2; ++w) add_worker();
  run({0, 1}, 2, before_the_commit_of(2));
  // As if one slot had never arrived anywhere: nobody can have committed.
  for (int w : {0, 1}) worker(w).state.copy(ShardId(0)).slot.reset();
  std::atomic<int> commits{0};
  const auto decision = run({0, 1}, 2, [&](Worker& w, const Moment& moment) {
    if (moment.phase == Phase::kLosses && moment.way == Way::kSend) {
      // (slots of this attempt may be arriving, none is marked yet)
      for (const auto& copy : w.state.copies())
        EXPECT_FALSE(copy.slot.has_value() && copy.slot->generation == Generation(1));
    }
    if (moment.phase == Phase::kCommit && moment.way == Way::kSend) {
      ++commits;
      for (const auto& copy : w.state.copies())
        EXPECT_EQ(copy.slot, (cluster::SlotTag{Step(2), Generation(2)}));
    }
  });
  EXPECT_EQ(decision.kind, cluster::DecisionKind::kRecompute);
  EXPECT_EQ(commits, 2);
  EXPECT_EQ(worker(0).digest, quiet(2));
}

// R11
TEST_F(RecoveryRules, AJoinerHasTheParametersBeforeItComputes) {
  for (int w = 0; w < 3; ++w) add_worker();
  run({0, 1}, 1);
  const auto decision = run({0, 1, 2}, 2);
  EXPECT_THAT(decision.needs_parameters, testing::ElementsAre(Rank(2)));
  EXPECT_EQ(worker(2).digest, quiet(2));
  EXPECT_EQ(worker(2).values(), worker(0).values());
}

TEST_F(RecoveryRules, AResizeLeavesEachWorkerItsShare) {
  for (int w = 0; w < 4; ++w) add_worker();
  const std::vector<std::vector<int>> sizes = {{0, 1}, {0, 1, 2, 3}, {0, 1, 2}};
  int64_t step = 0;
  for (const auto& members : sizes) {
    std::array<size_t, 4> before{}, most{};
    for (int w : members) before[static_cast<size_t>(w)] = worker(w).state.copies().size();
    run(members, ++step, [&](Worker& w, const Moment&) {
      size_t& high = most[static_cast<size_t>(w.number)];
      high = std::max(high, w.state.copies().size());
    });
    const size_t share = (2 * kShards + members.size() - 1) / members.size();
    for (int w : members) {
      EXPECT_LE(worker(w).state.copies().size(), share);
      // What is given away stays until the first commit; nothing else comes on top.
      EXPECT_LE(most[static_cast<size_t>(w)], std::max<size_t>(kShards, share));
      EXPECT_LE(most[static_cast<size_t>(w)], before[static_cast<size_t>(w)] + share);
    }
  }
  EXPECT_EQ(worker(0).digest, quiet(3));
}

// One step per size: planned changes, so nothing is computed twice. Who leaves is a member until
// the first commit, and comes back as a new worker.
TEST_F(RecoveryRules, AnySizeMayFollowAnyOther) {
  std::vector<int> sizes = {1, 2, 3, 4, 3, 1};
  std::mt19937 random(11);
  for (int k = 0; k < 12; ++k) sizes.push_back(1 + static_cast<int>(random() % 5));
  std::vector<int> members;
  int next = 0;
  int64_t step = 0;
  for (int size : sizes) {
    const int leaving = std::max(0, static_cast<int>(members.size()) - size);
    while (static_cast<int>(members.size()) < size) {
      add_worker();
      members.push_back(next++);
    }
    const auto decision = run(members, ++step, {}, leaving);
    if (step > 1) EXPECT_EQ(decision.kind, cluster::DecisionKind::kRecompute) << "step " << step;
    EXPECT_EQ(decision.lost_steps, 0);
    members.resize(static_cast<size_t>(size));
    for (int w : members) ASSERT_EQ(worker(w).error, "") << "size " << size;
  }
  EXPECT_EQ(worker(members[0]).digest, quiet(step));
}

/// Three workers, of whom the last leaves after step 2, as asked.
class BatchThatFollowsTheSize : public RecoveryRules {
 protected:
  void start() {
    let_the_batch_follow_the_size();
    for (int w = 0; w < 3; ++w) add_worker();
  }
  static const std::string& quiet_change() {
    static const std::string digest = [] {
      BatchThatFollowsTheSize job;
      job.start();
      job.run({0, 1, 2}, 2);
      job.run({0, 1, 2}, 4, {}, 1, true);
      EXPECT_EQ(job.worker(0).progress.position, 6 + 6 + 4 + 4);
      return job.worker(0).digest;
    }();
    return digest;
  }

  /// Two workers, one micro-batch each; one is lost in step 2, and three join at that moment.
  static std::string join_while_a_step_of_two_is_lost(Strategy strategy) {
    BatchThatFollowsTheSize job;
    job.shape_.micro_batches = job.shape_.reference = 1;
    for (int w = 0; w < 5; ++w) job.add_worker().strategy = strategy;
    job.run({0, 1}, 2, [](Worker& w, const Moment& moment) {
      if (moment.phase == Phase::kLosses && w.progress.step == Step(1)) break_off();
    });
    const auto decision = job.run({0, 2, 3, 4}, 3);
    EXPECT_EQ(decision.micro_batches, 2);
    EXPECT_EQ(job.worker(4).progress.position, 2 + 2 + 4);
    EXPECT_EQ(job.worker(4).digest, job.worker(0).digest);
    EXPECT_EQ(job.worker(4).digest.size(), 64u);
    return job.worker(4).digest;
  }
};

TEST_F(BatchThatFollowsTheSize, AStepThatIsComputedAgainKeepsItsMicroBatches) {
  start();
  run({0, 1, 2}, 2, [](Worker& w, const Moment& moment) {
    if (moment.way == Way::kReceive && moment.phase == Phase::kLosses && w.progress.step == Step(1))
      break_off();
  });
  const auto decision = run({0, 1}, 4);
  EXPECT_EQ(decision.kind, cluster::DecisionKind::kRecompute);
  EXPECT_EQ(decision.micro_batches, 6);
  EXPECT_EQ(decision.later_micro_batches, 4);
  EXPECT_EQ(decision.shares[0].keep, (std::vector<cluster::MicroBatchRange>{{0, 2}}));
  EXPECT_EQ(decision.shares[1].keep, (std::vector<cluster::MicroBatchRange>{{2, 4}}));
  EXPECT_EQ(worker(0).digest, quiet_change());
  EXPECT_EQ(worker(1).digest, quiet_change());
}

TEST_F(BatchThatFollowsTheSize, AStepThatIsRolledForwardKeepsItsMicroBatches) {
  start();
  run({0, 1, 2}, 2, before_the_commit_of(2));
  const auto decision = run({0, 1}, 4);
  EXPECT_EQ(decision.kind, cluster::DecisionKind::kRollForward);
  EXPECT_EQ(worker(0).digest, quiet_change());
  EXPECT_EQ(worker(0).progress.position, 6 + 6 + 4 + 4);
}

TEST_F(BatchThatFollowsTheSize, AStepMayHaveFewerMicroBatchesThanWorkers) {
  EXPECT_EQ(join_while_a_step_of_two_is_lost(Strategy::kZero1),
            join_while_a_step_of_two_is_lost(Strategy::kZero2));
}

TEST_F(RecoveryRules, AHundredGenerationsInFlatMemory) {
  for (int w = 0; w < 2; ++w) add_worker();
  constexpr int kGenerations = 100;
  uint64_t resident = 0, gradients = 0;
  for (int g = 1; g <= kGenerations; ++g) {
    run({0, 1}, g, before_the_commit_of(g));
    if (g == 20) {
      resident = runtime::resident_memory();
      gradients = worker(0).gradients.allocated_bytes();
    }
  }
  run({0, 1}, kGenerations);
  EXPECT_EQ(worker(0).digest, quiet(kGenerations));
  EXPECT_EQ(worker(0).gradients.allocated_bytes(), gradients);
  EXPECT_LT(runtime::resident_memory(), resident + (16u << 20));
}

}  // namespace
}  // namespace craton::parallel
