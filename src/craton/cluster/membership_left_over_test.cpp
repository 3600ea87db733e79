// Sizes are multiples of two, as where two workers share each window: a survivor for whom there is
// no place holds its copies until others have them, and then waits beside the job.
#include <algorithm>
#include <map>

#include "craton/testing/membership_fixture.h"

namespace craton::cluster {
namespace {

using craton::testing::Ids;
using craton::testing::MembershipTest;
using std::chrono::milliseconds;

class LeftOver : public MembershipTest {
 protected:
  LeftOver() {
    options.elastic.min_workers = options.elastic.increment = 2;
    options.start_workers = 4;
  }
  /// Worker 2 of four is lost; 1 and 3 go on.
  std::vector<Action> lose_one() {
    start(4);
    return on(WorkerExited{WorkerId(2), ExitKind::kCrash, "signal 9"});
  }
  void all_report(int64_t version) {
    for (uint64_t id : {1, 3, 4}) report(id, version);
    ASSERT_EQ(state.log.phase, JobPhase::kTraining);
  }
};

TEST_F(LeftOver, StaysAndCompletesTheNextSizeAtOnce) {
  auto actions = lose_one();
  EXPECT_EQ(members(), (Ids{1, 3}));
  EXPECT_EQ(members(Role::kLeftOver), Ids{4});
  ASSERT_EQ(only<StartWorkers>(actions).size(), 1u);
  EXPECT_EQ(only<StartWorkers>(actions)[0].count, 1);  // the fourth is there
  all_report(4);
  actions = on(WorkerExited{WorkerId(4), ExitKind::kRests});
  EXPECT_TRUE(published(actions, "rests"));
  EXPECT_TRUE(only<StartWorkers>(actions).empty());
  actions = ready(14);  // the same process
  EXPECT_TRUE(only<Announce>(actions).empty());
  EXPECT_EQ(state.workers.at(WorkerId(14)).state, WorkerRecord::State::kReady);
  ready(9);
  EXPECT_TRUE(announced.planned);
  EXPECT_EQ(members(), (Ids{1, 3, 14, 9}));
  EXPECT_TRUE(state.starting.empty());
}

TEST_F(LeftOver, HoldsUntilTheFirstCommit) {
  lose_one();
  all_report(4);
  const Decision& decision = *state.log.decision;
  ASSERT_EQ(announced.members[2].worker.id, WorkerId(4));
  EXPECT_EQ(decision.extras.size(), static_cast<size_t>(options.shape.shards));
  for (int s = 0; s < options.shape.shards; ++s) {
    const auto first = acknowledging(decision, ShardId(s), true);
    EXPECT_EQ(std::count(first.begin(), first.end(), Rank(2)), 1);
    EXPECT_FALSE(holds_after_commit(decision, ShardId(s), Rank(2)));
  }
}

// What a survivor has alone goes to those who train before anything is committed without it.
TEST_F(LeftOver, GivesTheOnlyCopy) {
  lose_one();
  const auto copies = [&](std::vector<int> shards) {
    Report r{.generation = state.log.membership.generation, .parameters = Step(4)};
    for (int s : shards) r.copies.push_back({ShardId(s), Step(4), {}});
    return r;
  };
  for (auto& [id, shards] : std::map<uint64_t, std::vector<int>>{
           {1, {0, 1, 2, 3}}, {3, {4, 5, 0, 1}}, {4, {6, 7, 2, 3}}}) {
    Report r = copies(shards);
    r.worker = WorkerId(id);
    on(ReportReceived{r});
  }
  ASSERT_TRUE(state.log.decision);
  const Decision& decision = *state.log.decision;
  EXPECT_EQ(decision.kind, DecisionKind::kRecompute);
  EXPECT_EQ(decision.step, Step(5));
  for (int s : {6, 7}) {
    const auto transfer = std::find_if(decision.transfers.begin(), decision.transfers.end(),
                                       [&](const Transfer& t) { return t.shard == ShardId(s); });
    ASSERT_NE(transfer, decision.transfers.end()) << s;
    EXPECT_EQ(transfer->donors, std::vector{Rank(2)});
    EXPECT_EQ(transfer->receivers.size(), 2u);
  }
}

TEST_F(LeftOver, TrainsWhenTheReplacementIsThereBeforeTheDecision) {
  lose_one();
  report(1, 4);
  ready(9);
  EXPECT_FALSE(announced.planned);
  EXPECT_EQ(members(), (Ids{1, 3, 4, 9}));
  EXPECT_TRUE(members(Role::kLeftOver).empty());
}

TEST_F(LeftOver, IsTakenBackWhenAnotherIsLostBeforeTheFirstCommit) {
  lose_one();
  all_report(4);
  on(WorkerExited{WorkerId(3), ExitKind::kCrash});
  EXPECT_EQ(members(), (Ids{1, 4}));
  EXPECT_TRUE(members(Role::kLeftOver).empty());
  report(1, 4);
  report(4, 4);
  EXPECT_EQ(state.log.decision->kind, DecisionKind::kRecompute);
}

// It had gone when that was announced.
TEST_F(LeftOver, ThatHasGoneIsNotWaitedFor) {
  lose_one();
  all_report(4);
  on(WorkerExited{WorkerId(3), ExitKind::kCrash});
  report(1, 5);
  on(WorkerExited{WorkerId(4), ExitKind::kRests});
  EXPECT_TRUE(published(all, "waiting"));  // one is left, and two are needed
  ready(14);
  EXPECT_EQ(members(), (Ids{1, 14}));
  report(1, 5);
  report(14, std::nullopt);
  EXPECT_EQ(state.log.decision->step, Step(6));
}

TEST_F(LeftOver, AfterADrain) {
  start(4);
  on(DrainRequested{"n2"});
  EXPECT_TRUE(announced.planned);
  EXPECT_EQ(members(), (Ids{1, 3}));
  EXPECT_EQ(members(Role::kLeftOver), Ids{4});
  EXPECT_EQ(members(Role::kLeaving), Ids{2});
  for (int i = 1; i <= 4; ++i) report(i, 3);
  on(WorkerExited{WorkerId(2), ExitKind::kDrained});
  on(DrainRequested{"n4"});  // is asked to leave as well
  const auto actions = on(WorkerExited{WorkerId(4), ExitKind::kRests});
  ASSERT_EQ(only<StopWorker>(actions).size(), 1u);
  EXPECT_EQ(only<StopWorker>(actions)[0].worker, WorkerId(4));
  EXPECT_EQ(announced.generation, Generation(2));
}

TEST_F(LeftOver, WhoIsNotWantedAnyMoreGoes) {
  start(4);
  on(ScaleRequested{2});
  EXPECT_TRUE(members(Role::kLeftOver).empty());
  EXPECT_EQ(members(Role::kLeaving).size(), 2u);
}

TEST_F(LeftOver, ASpareIsKeptRatherThanStarted) {
  options.spares = 1;
  start(4);
  on(ScaleRequested{2});
  EXPECT_EQ(members(Role::kLeftOver).size(), 1u);
  EXPECT_EQ(members(Role::kLeaving).size(), 1u);
}

}  // namespace
}  // namespace craton::cluster
