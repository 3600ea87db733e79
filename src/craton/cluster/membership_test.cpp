#include "craton/cluster/membership.h"

#include <fmt/format.h>

#include "craton/testing/membership_fixture.h"

namespace craton::cluster {
namespace {

using craton::testing::Ids;
using craton::testing::MembershipTest;
using std::chrono::milliseconds;

TEST_F(MembershipTest, StartsWithAllThatWereAskedFor) {
  state.options = options;
  EXPECT_EQ(only<StartWorkers>(on(OperatorStarted{}))[0].count, 3);
  ready(1);
  ready(2);
  EXPECT_EQ(state.log.phase, JobPhase::kStarting);
  ready(3);
  EXPECT_EQ(announced.generation, Generation(1));
  report(1, std::nullopt);
  report(2, std::nullopt);
  const auto decisions = only<SendDecision>(report(3, std::nullopt));
  ASSERT_EQ(decisions.size(), 1u);
  EXPECT_EQ(decisions[0].decision.kind, DecisionKind::kRestore);  // of step 0: the initial state
  EXPECT_EQ(decisions[0].decision.step, Step(0));
  EXPECT_EQ(decisions[0].decision.lost_steps, 0);
  EXPECT_FALSE(published(all, "loss"));
}

TEST_F(MembershipTest, StartsSmallerWhenNobodyElseComes) {
  options.elastic.failures_without_progress = 0;
  state.options = options;
  on(OperatorStarted{});
  ready(1);
  on(StartFailed{1, "no device"});
  EXPECT_EQ(state.log.phase, JobPhase::kStarting);
  now += options.start_timeout;
  on(Tick{});
  EXPECT_EQ(members(), Ids{1});
}

TEST_F(MembershipTest, SurvivorsGoOnAndAReplacementJoinsAtABoundary) {
  start(3);
  auto actions = on(WorkerExited{WorkerId(2), ExitKind::kCrash, "signal 9"});
  EXPECT_EQ(announced.generation, Generation(2));
  EXPECT_FALSE(announced.planned);
  EXPECT_EQ(members(), (Ids{1, 3}));
  EXPECT_EQ(only<StartWorkers>(actions)[0].count, 1);
  report(1, 4, SlotTag{Step(5), Generation(1)});
  actions = report(3, 4, SlotTag{Step(5), Generation(1)});
  EXPECT_EQ(only<SendDecision>(actions)[0].decision.kind, DecisionKind::kRollForward);
  ready(9);
  EXPECT_EQ(state.log.phase, JobPhase::kBoundary);
  EXPECT_TRUE(announced.planned);
  EXPECT_EQ(members(), (Ids{1, 3, 9}));
  report(9, std::nullopt);
  report(1, 6);
  actions = report(3, 6);
  const Decision decision = only<SendDecision>(actions)[0].decision;
  EXPECT_EQ(decision.kind, DecisionKind::kRecompute);
  EXPECT_EQ(decision.step, Step(7));
  EXPECT_EQ(decision.needs_parameters,
            std::vector{Rank(2)});  // R11: it is given them before it computes
}

TEST_F(MembershipTest, DecidesOnlyWhenAllHaveReported) {  // R3
  start(3);
  on(WorkersSuspected{{WorkerId(2)}, "silent"});
  EXPECT_TRUE(only<SendDecision>(report(1, 4)).empty());
  EXPECT_TRUE(only<SendDecision>(report(2, 9)).empty());  // fenced: no evidence
  const auto actions = report(3, 4);
  EXPECT_EQ(only<SendDecision>(actions)[0].decision.step, Step(5));
  EXPECT_EQ(only<StopWorker>(actions)[0].worker, WorkerId(2));
}

TEST_F(MembershipTest, ASilentMemberIsFencedAfterTheDeadline) {
  start(3);
  on(WorkerExited{WorkerId(2)});
  report(1, 4);
  now += options.report_timeout;
  on(Tick{});
  EXPECT_EQ(announced.generation, Generation(3));
  EXPECT_EQ(members(), Ids{1});
}

TEST_F(MembershipTest, AFailureDuringRecoveryIsTheNextGeneration) {
  start(3);
  on(WorkerExited{WorkerId(1)});
  report(2, 4);
  on(WorkerExited{WorkerId(2)});
  EXPECT_EQ(announced.generation, Generation(3));
  EXPECT_EQ(only<SendDecision>(report(3, 4))[0].decision.step, Step(5));
}

TEST_F(MembershipTest, AnUndecidedGenerationIsNotDecidedAgainByARestartedOperator) {  // R8
  start(3);
  on(WorkerExited{WorkerId(1)});
  const LogRecord log = stored;
  state = {};
  state.options = options;
  on(OperatorStarted{log});
  EXPECT_EQ(announced.generation, log.membership.generation.next());
  EXPECT_EQ(members(), (Ids{2, 3}));
}

TEST_F(MembershipTest, ADecidedGenerationGoesOnAfterARestart) {
  start(3);
  const LogRecord log = stored;
  state = {};
  state.options = options;
  const auto actions = on(OperatorStarted{log});
  EXPECT_EQ(announced.generation, Generation(1));
  EXPECT_EQ(only<SendDecision>(actions).size(), 1u);  // perhaps it was never sent
  EXPECT_TRUE(only<StartWorkers>(actions).empty());   // those that live have not been heard of yet
  on(WorkerReady{worker(1), Generation(1)});
  on(WorkerReady{worker(7), Generation(1)});  // was a member of the past: stopped
  EXPECT_EQ(members(), (Ids{1, 2, 3}));
  EXPECT_EQ(only<StopWorker>(all).back().worker, WorkerId(7));
}

TEST_F(MembershipTest, TwoOperatorsCannotBothGoOn) {
  start(3);
  MembershipState old = state;
  const LogRecord log = stored;
  state = {};
  state.options = options;
  on(OperatorStarted{log});
  // The old one wakes up: its record has a number that is taken.
  const auto actions = decide(old, {now, WorkerExited{WorkerId(1)}});
  ASSERT_FALSE(only<Persist>(actions).empty());
  EXPECT_LE(only<Persist>(actions)[0].record.sequence, stored.sequence);
  decide(old, {now, PersistRefused{}});
  EXPECT_TRUE(decide(old, {now, WorkerExited{WorkerId(2)}}).empty());
}

TEST_F(MembershipTest, TheLastHolderIsWaitedForOneLease) {  // R10
  options.shape.backups = 0;
  start(2 + 1);
  on(WorkersSuspected{{WorkerId(3)}, "silent"});
  report(1, std::nullopt);
  EXPECT_TRUE(only<SendDecision>(report(2, std::nullopt)).empty());
  now += options.lease / 2;
  EXPECT_TRUE(only<SendDecision>(on(Tick{})).empty());
  const uint64_t before = announced.generation.value();
  report(3, 4);  // it lives: its copy counts
  EXPECT_EQ(announced.generation, Generation(before + 1));
  EXPECT_EQ(members(), (Ids{1, 2, 3}));
  report(1, std::nullopt);
  report(2, std::nullopt);
  EXPECT_EQ(only<SendDecision>(report(3, 4))[0].decision.step, Step(5));
}

TEST_F(MembershipTest, AfterTheLeaseTheLossIsSaid) {
  start(3);
  on(CheckpointPublished{{Step(2)}});
  on(StepCommitted{Step(4)});
  on(WorkersSuspected{{WorkerId(3)}, "silent"});
  report(1, std::nullopt);
  report(2, std::nullopt);
  now += options.lease;
  const auto actions = on(Tick{});
  ASSERT_EQ(only<SendDecision>(actions).size(), 1u);
  EXPECT_EQ(only<SendDecision>(actions)[0].decision.kind, DecisionKind::kRestore);
  EXPECT_EQ(only<SendDecision>(actions)[0].decision.step, Step(2));
  EXPECT_EQ(only<SendDecision>(actions)[0].decision.lost_steps, 2);
  EXPECT_TRUE(published(actions, "loss"));
}

TEST_F(MembershipTest, ScaleAndDrainAreBoundaryChanges) {
  options.start_workers = 4;
  start(4);
  on(ScaleRequested{2});
  EXPECT_TRUE(announced.planned);
  EXPECT_EQ(members().size(), 2u);
  EXPECT_EQ(members(Role::kLeaving).size(), 2u);
  for (int i = 1; i <= 4; ++i) report(i, 3);
  for (uint64_t id : members(Role::kLeaving)) on(WorkerExited{WorkerId(id), ExitKind::kDrained});
  EXPECT_EQ(state.log.phase, JobPhase::kTraining);  // leaving as planned is no failure
  EXPECT_EQ(announced.generation, Generation(2));
  EXPECT_TRUE(published(on(ScaleRequested{9}), "refused"));
  on(DrainRequested{fmt::format("n{}", members()[0])});
  EXPECT_EQ(announced.generation, Generation(3));
  EXPECT_EQ(members(Role::kLeaving).size(), 1u);
}

TEST_F(MembershipTest, ADyingJoinerDisturbsNobody) {
  options.start_workers = 2;
  start(2);
  on(ScaleRequested{3});
  ready(7);
  EXPECT_EQ(state.log.phase, JobPhase::kBoundary);
  on(WorkerExited{WorkerId(7)});
  EXPECT_TRUE(announced.planned);
  EXPECT_EQ(members(), (Ids{1, 2}));
}

TEST_F(MembershipTest, ExtraWorkersAreParked) {
  start(3);
  const auto actions = ready(4);
  EXPECT_TRUE(only<Announce>(actions).empty());
  EXPECT_TRUE(only<StopWorker>(actions).empty());
  on(WorkerExited{WorkerId(1)});
  EXPECT_EQ(members(), (Ids{2, 3, 4}));  // and are used at once
}

TEST_F(MembershipTest, AnotherFingerprintIsNotAdmitted) {
  start(3);
  const auto actions = on(WorkerReady{worker(8, "other kernels"), {}});
  EXPECT_EQ(only<StopWorker>(actions)[0].worker, WorkerId(8));
  EXPECT_TRUE(published(actions, "refused"));
}

TEST_F(MembershipTest, ACrashLoopBacksOffAndEnds) {
  options.elastic.failures_without_progress = 4;
  start(3);
  on(WorkerExited{WorkerId(3), ExitKind::kCrash, "first"});
  report(1, 1);
  report(2, 1);
  auto actions = on(StartFailed{1, "cannot open the volume"});
  EXPECT_TRUE(only<StartWorkers>(actions).empty());
  EXPECT_TRUE(published(actions, "backoff"));
  now += options.elastic.failure_backoff;
  EXPECT_EQ(only<StartWorkers>(on(Tick{})).size(), 1u);
  on(StartFailed{1, "cannot open the volume"});
  actions = on(StartFailed{1, "cannot open the volume"});
  ASSERT_EQ(only<EndJob>(actions).size(), 1u);
  EXPECT_NE(only<EndJob>(actions)[0].reason.find("cannot open the volume"), std::string::npos);
}

TEST_F(MembershipTest, TheEndIsSticky) {
  start(3);
  for (int i = 1; i <= 3; ++i) on(WorkerFinished{WorkerId(i)});
  EXPECT_EQ(state.log.phase, JobPhase::kFinished);
  EXPECT_EQ(stored.phase, JobPhase::kFinished);
  for (int i = 1; i <= 3; ++i) EXPECT_TRUE(only<Announce>(on(WorkerExited{WorkerId(i)})).empty());
  EXPECT_EQ(only<StopWorker>(ready(9)).size(), 1u);
  on(ScaleRequested{2});
  on(StopRequested{"late"});
  EXPECT_EQ(stored.phase, JobPhase::kFinished);
  const LogRecord log = stored;
  state = {};
  state.options = options;
  const auto actions = on(OperatorStarted{log});
  EXPECT_EQ(only<EndJob>(actions)[0].phase, JobPhase::kFinished);
}

TEST_F(MembershipTest, BelowTheMinimumTheJobWaitsAndIsRefilled) {
  options.elastic.min_workers = 2;
  options.start_workers = 2;
  start(2);
  on(WorkerExited{WorkerId(1)});
  EXPECT_TRUE(only<SendDecision>(report(2, 4)).empty());
  EXPECT_TRUE(published(all, "waiting"));
  ready(5);
  EXPECT_EQ(members(), (Ids{2, 5}));
  report(5, std::nullopt);
  EXPECT_EQ(only<SendDecision>(report(2, 4))[0].decision.step, Step(5));
}

TEST_F(MembershipTest, AllGoneComesBackFromTheCheckpoint) {
  start(3);
  on(CheckpointPublished{{Step(6)}});
  on(StepCommitted{Step(8)});
  for (int i = 1; i <= 3; ++i) on(WorkerExited{WorkerId(i)});
  EXPECT_TRUE(members().empty());
  now += options.elastic.failure_backoff * 8;
  on(Tick{});
  ready(11);
  report(11, std::nullopt);
  EXPECT_EQ(state.log.phase, JobPhase::kTraining);
  EXPECT_EQ(state.log.decision->kind, DecisionKind::kRestore);
  EXPECT_EQ(state.log.decision->step, Step(6));
  EXPECT_EQ(state.log.decision->lost_steps, 2);
}

TEST_F(MembershipTest, ThirtyOfThirtyTwoAreOneFailureAndAllReplacedAtOnce) {
  options.shape = {.shards = 64, .micro_batches = 32, .backups = 1};
  options.elastic.max_workers = options.start_workers = 32;
  options.elastic.failures_without_progress = 4;
  start(32);
  on(CheckpointPublished{{Step(6)}});
  int started = 0;
  for (int i = 3; i <= 32; ++i) {
    for (const StartWorkers& action : only<StartWorkers>(on(WorkerExited{WorkerId(i)})))
      started += action.count;
  }
  now += options.elastic.failure_backoff;
  for (const StartWorkers& action : only<StartWorkers>(on(Tick{}))) started += action.count;
  EXPECT_EQ(started, 30);
  report(1, 8);
  report(2, 8);
  EXPECT_EQ(state.log.phase, JobPhase::kTraining);  // the two go on meanwhile
}

TEST_F(MembershipTest, APlannedChangeWithoutBoundaryBecomesAnAbort) {
  start(3);
  on(ScaleRequested{2});
  EXPECT_TRUE(announced.planned);
  now += options.boundary_timeout;
  on(Tick{});
  EXPECT_FALSE(announced.planned);
  EXPECT_EQ(members().size(), 2u);
}

TEST_F(MembershipTest, WhatWouldStopAnyWorkerEndsTheJob) {
  start(3);
  const auto actions = on(WorkerExited{WorkerId(2), ExitKind::kFatal, "No space left on device"});
  ASSERT_EQ(only<EndJob>(actions).size(), 1u);
  EXPECT_EQ(only<EndJob>(actions)[0].reason, "No space left on device");
  EXPECT_TRUE(only<StartWorkers>(actions).empty());
  EXPECT_EQ(stored.phase, JobPhase::kFailed);
  EXPECT_TRUE(ready(9).size() == 1u);  // it is stopped: the end stays the end
  EXPECT_EQ(state.log.phase, JobPhase::kFailed);
}

TEST_F(MembershipTest, AJobWhoseWorkersCannotStartEnds) {
  state.options = options;
  on(OperatorStarted{});
  const auto actions = on(StartFailed{1, "no volume at x", true});
  ASSERT_EQ(only<EndJob>(actions).size(), 1u);
  EXPECT_EQ(only<EndJob>(actions)[0].reason, "no volume at x");
}

TEST_F(MembershipTest, StoppedIsNotFinished) {
  start(3);
  for (int i = 1; i <= 3; ++i) on(WorkerFinished{WorkerId(i), true});
  EXPECT_EQ(state.log.phase, JobPhase::kStopped);
}

TEST_F(MembershipTest, WithoutPeerStateAFailureGoesBackToTheCheckpoint) {
  options.peer_state = false;
  start(3);
  on(CheckpointPublished{{Step(2)}});
  on(StepCommitted{Step(4)});
  on(WorkerExited{WorkerId(2), ExitKind::kCrash, "signal 9"});
  report(1, 4, SlotTag{Step(5), Generation(1)});
  const auto actions = report(3, 4, SlotTag{Step(5), Generation(1)});
  const Decision decision = only<SendDecision>(actions)[0].decision;
  EXPECT_EQ(decision.kind, DecisionKind::kRestore);
  EXPECT_EQ(decision.step, Step(2));
  EXPECT_EQ(decision.lost_steps, 2);
  ready(9);  // a planned change still uses the peers
  for (int i : {1, 3, 9}) report(i, i == 9 ? std::nullopt : std::optional<int64_t>(3));
  EXPECT_EQ(state.log.decision->kind, DecisionKind::kRecompute);
}

TEST_F(MembershipTest, WithoutProcessesAFailureStartsAllAnew) {
  options.keep_processes = false;
  start(3);
  on(CheckpointPublished{{Step(2)}});
  on(StepCommitted{Step(4)});
  const auto actions = on(WorkerExited{WorkerId(2), ExitKind::kCrash, "signal 9"});
  EXPECT_EQ(only<StopWorker>(actions).size(), 2u);
  ASSERT_EQ(only<StartWorkers>(actions).size(), 1u);
  EXPECT_EQ(only<StartWorkers>(actions)[0].count, 3);
  EXPECT_EQ(state.log.phase, JobPhase::kStarting);
  on(WorkerExited{WorkerId(1), ExitKind::kStopped});
  for (int i = 11; i <= 13; ++i) ready(i);
  for (int i = 11; i <= 13; ++i) report(i, std::nullopt);
  EXPECT_EQ(state.log.membership.generation, Generation(2));
  EXPECT_EQ(state.log.decision->kind, DecisionKind::kRestore);
  EXPECT_EQ(state.log.decision->step, Step(2));
  EXPECT_EQ(state.log.decision->lost_steps, 2);
}

TEST(WhyNotSize, SaysWhatIsWrong) {
  MembershipOptions options;
  options.shape.micro_batches = 8;
  options.elastic = {.min_workers = 2, .max_workers = 6, .increment = 2};
  EXPECT_EQ(why_not_size(options, 4), "");
  EXPECT_EQ(why_not_size(options, 9),
            "9 workers cannot share the 8 micro-batches of a step; ask for at most 6");
  options.shape.reference = 4;  // a step has more with more workers
  EXPECT_EQ(why_not_size(options, 9), "9 is more than max_workers (6) of the recipe");
  EXPECT_EQ(why_not_size(options, 7), "7 is more than max_workers (6) of the recipe");
  EXPECT_EQ(why_not_size(options, 1), "1 is fewer than min_workers (2) of the recipe");
  EXPECT_EQ(why_not_size(options, 5),
            "5 is not one of the sizes that the recipe allows; the next smaller one is 4");
}

TEST_F(MembershipTest, AThousandCyclesInBoundedMemory) {
  options.elastic.failures_without_progress = 0;
  start(3);
  uint64_t next = 10;
  std::vector<uint64_t> ids{1, 2, 3};
  for (int cycle = 0; cycle < 1000; ++cycle) {
    const auto all_report = [&] {
      for (int round = 0; round < 3 && !state.log.decision; ++round) {
        for (uint64_t id : ids) report(id, cycle);
      }
    };
    on(WorkerExited{WorkerId(ids[0]), ExitKind::kCrash});
    ids.erase(ids.begin());
    all_report();
    ready(next);
    ids.push_back(next++);
    now += options.elastic.failure_backoff_max;
    on(Tick{});  // the joiner waited for the back-off
    all_report();
    ASSERT_EQ(state.log.phase, JobPhase::kTraining) << cycle;
    ASSERT_LE(state.workers.size(), 6u);
    ASSERT_LE(state.reports.size(), 6u);
    ASSERT_LE(state.starting.size(), 6u);
  }
  EXPECT_GE(state.log.membership.generation.value(), 1000u);
}

}  // namespace
}  // namespace craton::cluster
