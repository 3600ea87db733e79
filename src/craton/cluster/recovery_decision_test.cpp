#include "craton/cluster/recovery_decision.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

namespace craton::cluster {
namespace {

using Kind = Verdict::Kind;

CopyState copy(int shard, int64_t version, std::optional<SlotTag> slot = std::nullopt,
               bool complete = true) {
  return {ShardId(shard), Step(version), slot, complete};
}
SlotTag slot(int64_t step, uint64_t generation) { return {Step(step), Generation(generation)}; }

Report report(uint64_t worker, std::vector<CopyState> copies) {
  return {.worker = WorkerId(worker), .generation = Generation(9), .copies = std::move(copies)};
}

TEST(Judge, EveryShardPreparedIsRolledForward) {
  const std::vector<Report> reports{report(1, {copy(0, 4, slot(5, 3)), copy(1, 4)}),
                                    report(2, {copy(1, 4, slot(5, 3))})};
  const Verdict verdict = judge(2, reports);
  EXPECT_EQ(verdict.kind, Kind::kRollForward);
  EXPECT_EQ(verdict.step, Step(5));
  EXPECT_EQ(verdict.slot_generation, Generation(3));
  EXPECT_FALSE(verdict.commit);
}

TEST(Judge, OneShardNotPreparedMeansNobodyCommitted) {
  const std::vector<Report> reports{report(1, {copy(0, 4, slot(5, 3)), copy(1, 4)}),
                                    report(2, {copy(1, 4), copy(0, 4, slot(5, 3))})};
  const Verdict verdict = judge(2, reports);
  EXPECT_EQ(verdict.kind, Kind::kRecompute);
  EXPECT_EQ(verdict.step, Step(5));
}

TEST(Judge, SlotsOfDifferentAttemptsDoNotAddUp) {  // R7
  const std::vector<Report> reports{report(1, {copy(0, 4, slot(5, 3))}),
                                    report(2, {copy(1, 4, slot(5, 2))})};
  EXPECT_EQ(judge(2, reports).kind, Kind::kRecompute);
}

TEST(Judge, AppliedSomewhereIsCommittedForAll) {  // R5: the result travels with the decision
  Report applied = report(1, {copy(0, 5)});
  applied.last_commit = CommitResult{slot(5, 3), 2.5, false};
  const std::vector<Report> reports{applied, report(2, {copy(1, 4, slot(5, 3))})};
  const Verdict verdict = judge(2, reports);
  EXPECT_EQ(verdict.kind, Kind::kRollForward);
  EXPECT_EQ(verdict.step, Step(5));
  ASSERT_TRUE(verdict.commit);
  EXPECT_EQ(verdict.commit->norm, 2.5);
  EXPECT_FALSE(verdict.commit->finite);
}

TEST(Judge, AppliedEverywhereGoesOn) {
  const std::vector<Report> reports{report(1, {copy(0, 5), copy(1, 5)}), report(2, {})};
  const Verdict verdict = judge(2, reports);
  EXPECT_EQ(verdict.kind, Kind::kRecompute);
  EXPECT_EQ(verdict.step, Step(6));
}

TEST(Judge, IncompleteCopiesAreNoHolders) {  // R2
  const std::vector<Report> reports{report(1, {copy(0, 5), copy(1, 5, std::nullopt, false)})};
  const Verdict verdict = judge(2, reports);
  EXPECT_EQ(verdict.kind, Kind::kLoss);
  EXPECT_EQ(verdict.lost, std::vector{ShardId(1)});
}

TEST(Judge, ACopyThatHistoryHasPassedIsLost) {
  const std::vector<Report> reports{report(1, {copy(0, 5)}), report(2, {copy(1, 4)})};
  const Verdict verdict = judge(2, reports);
  EXPECT_EQ(verdict.kind, Kind::kLoss);
  EXPECT_EQ(verdict.lost, std::vector{ShardId(1)});
  EXPECT_EQ(verdict.highest, Step(5));
}

TEST(Judge, ShardsOutsideOfTheJobAreIgnored) {
  const std::vector<Report> reports{report(1, {copy(0, 5), copy(7, 9), copy(-1, 9)})};
  EXPECT_EQ(judge(1, reports).step, Step(6));
}

Membership members(int n) {
  Membership membership{.generation = Generation(4)};
  for (int i = 0; i < n; ++i)
    membership.members.push_back({{WorkerId(100 + i), fmt::format("n{}", i), "", ""}});
  return membership;
}

TEST(Decision, SurvivorsKeepTheirSums) {
  const JobShape shape{.shards = 2, .micro_batches = 8, .backups = 1};
  std::vector<Report> reports{report(100, {copy(0, 4), copy(1, 4)}), report(101, {copy(0, 4)})};
  reports[0].held = {Step(5), {{0, 3}}, 8};
  reports[1].held = {Step(4), {{3, 8}}, 8};  // of a step that is over
  reports[0].parameters = reports[1].parameters = Step(4);
  const Decision decision =
      complete_decision(shape, members(2), reports, judge(2, reports), {}, {Step(0)});
  EXPECT_EQ(decision.kind, DecisionKind::kRecompute);
  EXPECT_EQ(decision.shares[0].keep, (std::vector<MicroBatchRange>{{0, 3}}));
  EXPECT_TRUE(decision.shares[1].keep.empty());
  EXPECT_EQ(decision.shares[0].compute, (std::vector<MicroBatchRange>{{3, 5}}));
  EXPECT_EQ(decision.shares[1].compute, (std::vector<MicroBatchRange>{{5, 8}}));
  EXPECT_TRUE(decision.needs_parameters.empty());
  ASSERT_EQ(decision.transfers.size(), 1u);
  EXPECT_EQ(decision.transfers[0], (Transfer{ShardId(1), {Rank(1)}, {Rank(0)}}));
}

TEST(Decision, TheLeaverStaysAHolderUntilTheFirstCommit) {  // R4
  const JobShape shape{.shards = 2, .micro_batches = 4, .backups = 0};
  Membership membership = members(2);
  membership.members[1].role = Role::kLeaving;
  const std::vector<Report> reports{report(100, {copy(0, 4)}), report(101, {copy(1, 4)})};
  const Decision decision =
      complete_decision(shape, membership, reports, judge(2, reports), {}, {Step(0)});
  EXPECT_EQ(decision.placement.holders, (std::vector<std::vector<Rank>>{{Rank(0)}, {Rank(0)}}));
  EXPECT_EQ(acknowledging(decision, ShardId(1), true), std::vector{Rank(1)});
  EXPECT_TRUE(acknowledging(decision, ShardId(1), false).empty());
  EXPECT_FALSE(holds_after_commit(decision, ShardId(1), Rank(1)));
  EXPECT_EQ(decision.shares[0].compute, (std::vector<MicroBatchRange>{{0, 4}}));
  EXPECT_TRUE(decision.shares[1].compute.empty());
}

TEST(Decision, TheOldPrimaryLeadsOn) {
  const JobShape shape{.shards = 4, .micro_batches = 4, .backups = 1};
  std::vector<CopyState> all{copy(0, 4), copy(1, 4), copy(2, 4), copy(3, 4)};
  const std::vector<Report> reports{report(100, all), report(101, all)};
  const std::vector<WorkerId> primaries{WorkerId(101), WorkerId(100), WorkerId(101), WorkerId(100)};
  const Decision decision =
      complete_decision(shape, members(2), reports, judge(4, reports), primaries, {Step(0)});
  EXPECT_EQ(decision.placement.holders[0][0], Rank(1));
  EXPECT_EQ(decision.placement.holders[1][0], Rank(0));
}

TEST(Decision, DonorsOfOneCopyStandAtOneStep) {
  const JobShape shape{.shards = 1, .micro_batches = 4, .backups = 3};
  const auto transfer_of = [&](std::vector<CopyState> copies) {
    std::vector<Report> reports;
    for (size_t k = 0; k < copies.size(); ++k) reports.push_back(report(100 + k, {copies[k]}));
    reports.push_back(report(100 + copies.size(), {}));
    const auto size = static_cast<int>(reports.size());
    const Decision decision =
        complete_decision(shape, members(size), reports, judge(1, reports), {}, {Step(0)});
    EXPECT_EQ(decision.kind, DecisionKind::kRollForward);
    EXPECT_EQ(decision.transfers.size(), 1u);
    return decision.transfers.at(0);
  };
  const CopyState applied = copy(0, 5), behind = copy(0, 4, slot(5, 3));
  EXPECT_EQ(transfer_of({applied, behind, applied}),
            (Transfer{ShardId(0), {Rank(3)}, {Rank(0), Rank(2)}}));
  EXPECT_EQ(transfer_of({behind, applied, behind}),
            (Transfer{ShardId(0), {Rank(3)}, {Rank(0), Rank(2)}}));
  EXPECT_EQ(transfer_of({behind, applied}), (Transfer{ShardId(0), {Rank(2)}, {Rank(1)}}));
}

TEST(Decision, LossNamesTheStepsThatItCosts) {
  const JobShape shape{.shards = 2, .micro_batches = 4, .backups = 1};
  const std::vector<Report> reports{report(100, {copy(0, 14)}), report(101, {copy(0, 14)})};
  const Decision decision =
      complete_decision(shape, members(2), reports, judge(2, reports), {}, {Step(10)});
  EXPECT_EQ(decision.kind, DecisionKind::kRestore);
  EXPECT_EQ(decision.step, Step(10));
  EXPECT_EQ(decision.lost_steps, 4);
}

TEST(Rules, ReadyCopiesAndTheirSlots) {
  Decision forward{
      .kind = DecisionKind::kRollForward, .step = Step(5), .slot_generation = Generation(3)};
  EXPECT_TRUE(is_ready(forward, copy(0, 5)));
  EXPECT_TRUE(is_ready(forward, copy(0, 4, slot(5, 3))));
  EXPECT_FALSE(is_ready(forward, copy(0, 4)));
  EXPECT_FALSE(is_ready(forward, copy(0, 4, slot(5, 2))));
  EXPECT_FALSE(is_ready(forward, copy(0, 5, std::nullopt, false)));
  EXPECT_TRUE(keeps_slot(forward, copy(0, 4, slot(5, 3))));
  EXPECT_FALSE(keeps_slot(forward, copy(0, 5, slot(6, 3))));
  EXPECT_TRUE(keeps_copy(forward, copy(0, 4)));  // the last resort if the slots are lost next
  EXPECT_FALSE(keeps_copy(forward, copy(0, 3)));
  EXPECT_FALSE(keeps_copy(forward, copy(0, 4, std::nullopt, false)));
  Decision recompute{.kind = DecisionKind::kRecompute, .step = Step(5)};
  EXPECT_TRUE(is_ready(recompute, copy(0, 4, slot(5, 3))));
  EXPECT_FALSE(keeps_slot(recompute, copy(0, 4, slot(5, 3))));
  EXPECT_FALSE(is_ready(recompute, copy(0, 3)));
  EXPECT_FALSE(keeps_copy(recompute, copy(0, 3)));
  EXPECT_TRUE(may_acknowledge(copy(0, 4), slot(5, 3)));
  EXPECT_FALSE(may_acknowledge(copy(0, 5), slot(5, 3)));
  EXPECT_FALSE(may_acknowledge(copy(0, 3), slot(5, 3)));
  EXPECT_FALSE(may_acknowledge(copy(0, 4, std::nullopt, false), slot(5, 3)));
}

}  // namespace
}  // namespace craton::cluster
