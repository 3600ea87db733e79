// The operator of a job whose batch follows its size.

#include "craton/testing/membership_fixture.h"

namespace craton::cluster {
namespace {

using craton::testing::Ids;
using craton::testing::MembershipTest;
using std::chrono::milliseconds;

/// Steps of 2 micro-batches a worker.
class BatchThatFollows : public MembershipTest {
 protected:
  BatchThatFollows() {
    options.shape.micro_batches = 4;
    options.shape.reference = 2;
    options.elastic.max_workers = 8;
  }
  struct Sizes {
    int64_t step = 0, position = 0;
    int first = 0, later = 0;
    bool operator==(const Sizes&) const = default;
  };
  Sizes decided() const {
    const Decision& d = *state.log.decision;
    return {d.step.value(), d.position, d.micro_batches, d.later_micro_batches};
  }
  /// All members report; joiners that they have nothing.
  void all_report(int64_t version, std::optional<SlotTag> slot = std::nullopt) {
    for (const Member& m : Membership(state.log.membership).members) {
      const uint64_t id = m.worker.id.value();
      report(id, id > 10 ? std::nullopt : std::optional(version), slot);
    }
  }
};

TEST_F(BatchThatFollows, APlannedChangeCountsFromItsFirstStep) {
  start(3);
  EXPECT_EQ(decided(), (Sizes{0, 0, 6, 6}));
  on(ScaleRequested{2});
  all_report(4);
  EXPECT_EQ(decided(), (Sizes{5, 24, 4, 4}));
  on(WorkerExited{WorkerId(3), ExitKind::kDrained});
  on(ScaleRequested{8});  // more than a step has had micro-batches
  for (uint64_t id = 11; id <= 16; ++id) ready(id);
  while (!state.log.decision) all_report(9);
  EXPECT_EQ(decided().first, 2 * static_cast<int>(members().size()));
  EXPECT_EQ(decided().position, 24 + 5 * 4);
}

TEST_F(BatchThatFollows, AStepThatMayHaveBegunKeepsItsMicroBatches) {
  start(3);
  on(WorkerExited{WorkerId(3)});
  all_report(6);
  EXPECT_EQ(decided(), (Sizes{7, 36, 6, 4}));
  EXPECT_EQ(state.log.decision->shares[0].compute, (std::vector<MicroBatchRange>{{0, 3}}));
  on(WorkerExited{WorkerId(2)});  // in the same step again
  all_report(6);
  EXPECT_EQ(decided(), (Sizes{7, 36, 6, 2}));
  now += milliseconds(2000);  // the replacement waits after two losses in a row
  ready(11);
  all_report(8);
  EXPECT_EQ(decided(), (Sizes{9, 36 + 6 + 2, 4, 4}));
}

TEST_F(BatchThatFollows, AStepThatIsRolledForwardKeepsItsMicroBatches) {
  start(3);
  on(WorkerExited{WorkerId(1)});
  all_report(6, SlotTag{Step(7), Generation(1)});
  EXPECT_EQ(state.log.decision->kind, DecisionKind::kRollForward);
  EXPECT_EQ(decided(), (Sizes{7, 36, 6, 4}));
}

TEST_F(BatchThatFollows, AChangeThatALossOvertakesComesAStepLater) {
  start(3);
  on(ScaleRequested{4});
  ready(11);
  EXPECT_TRUE(announced.planned);
  on(WorkerExited{WorkerId(1)});
  EXPECT_FALSE(announced.planned);
  all_report(6);
  EXPECT_EQ(decided(), (Sizes{7, 36, 6, 6}));
  EXPECT_EQ(members(), (Ids{2, 3, 11}));
}

TEST_F(BatchThatFollows, ARestartedOperatorKnowsWhatAStepWasBegunWith) {
  start(3);
  on(WorkerExited{WorkerId(3)});
  all_report(6);
  for (const bool undecided : {false, true}) {
    if (undecided) on(WorkerExited{WorkerId(2)});
    const LogRecord log = stored;
    const auto before = log.decision;
    state = {};
    state.options = options;
    on(OperatorStarted{log});
    EXPECT_EQ(state.log.decision, undecided ? std::nullopt : before);
  }
  all_report(6);
  EXPECT_EQ(decided(), (Sizes{7, 36, 6, 2}));
}

TEST_F(BatchThatFollows, ACheckpointSaysWhereItsNextStepBegins) {
  start(3);
  on(CheckpointPublished{{Step(5), 30}});
  on(WorkerExited{WorkerId(3)});
  all_report(6);
  on(WorkersSuspected{{WorkerId(1)}, "silent"});
  report(2, std::nullopt);
  now += options.lease;
  on(Tick{});
  EXPECT_EQ(state.log.decision->kind, DecisionKind::kRestore);
  EXPECT_EQ(decided(), (Sizes{5, 30, 2, 2}));
  on(WorkerExited{WorkerId(1), ExitKind::kStopped});
  ready(11);
  all_report(7);
  EXPECT_EQ(decided(), (Sizes{8, 34, 4, 4}));
}

TEST_F(BatchThatFollows, WhatNobodyRemembersComesFromTheCheckpoint) {
  options.start_workers = 2;
  start(2);
  on(CheckpointPublished{{Step(1), 4}});
  state.log.sizes.entries = {{Step(80), 320, 4}};
  on(Stalled{"all wait"});
  all_report(20);
  EXPECT_EQ(state.log.decision->kind, DecisionKind::kRestore);
  EXPECT_EQ(decided(), (Sizes{1, 4, 4, 4}));
}

}  // namespace
}  // namespace craton::cluster
