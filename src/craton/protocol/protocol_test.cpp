#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "craton/base/error.h"
#include "craton/protocol/messages.h"

namespace craton::protocol {
namespace {

using cluster::WorkerId;

cluster::WorkerInfo worker(uint64_t id) {
  return {WorkerId(id), "node-a", to_text({id, "boot-1", "@craton-7", "127.0.0.1", 4711}), "avx2"};
}

template <typename T>
T round_trip(const T& message) {
  return std::get<T>(decode(encode(message)));
}

cluster::Decision decision() {
  cluster::Decision d;
  d.generation = Generation(7);
  d.kind = cluster::DecisionKind::kRollForward;
  d.step = Step(12);
  d.slot_generation = Generation(6);
  d.commit = cluster::CommitResult{{Step(12), Generation(6)}, 3.25, true};
  d.placement.holders = {{Rank(0), Rank(2)}, {Rank(1)}};
  d.extras = {{ShardId(1), Rank(3)}};
  d.transfers = {{ShardId(0), {Rank(2)}, {Rank(0), Rank(1)}}};
  d.shares = {{{{0, 2}}, {{4, 5}, {6, 7}}}, {}};
  d.needs_parameters = {Rank(2)};
  d.lost_steps = 3;
  d.micro_batches = 8;
  d.later_micro_batches = 6;
  d.position = 88;
  return d;
}

TEST(Messages, MembershipReportAndDecisionComeBackEqual) {
  const cluster::Membership membership{
      Generation(7),
      true,
      {{worker(5)}, {worker(6), cluster::Role::kLeftOver}, {worker(7), cluster::Role::kLeaving}}};
  EXPECT_EQ(round_trip(membership), membership);
  EXPECT_EQ(round_trip(decision()), decision());
  cluster::Report report;
  report.worker = WorkerId(5);
  report.generation = Generation(7);
  report.took_part_in = Generation(6);
  report.copies = {{ShardId(3), Step(11), cluster::SlotTag{Step(12), Generation(6)}, true, 99},
                   {ShardId(4), Step(12), {}, false, 0}};
  report.held = {Step(12), {{0, 1}, {3, 6}}, 8};
  report.parameters = Step(-1);
  EXPECT_EQ(round_trip(report), report);
}

TEST(Messages, StepsKeepWhatIsNotFinite) {
  StepDone step;
  step.step = 3;
  step.applied = false;
  step.loss = std::numeric_limits<double>::quiet_NaN();
  step.gradient_norm = std::numeric_limits<double>::infinity();
  const StepDone back = round_trip(step);
  EXPECT_TRUE(std::isnan(back.loss));
  EXPECT_TRUE(std::isinf(back.gradient_norm));
  EXPECT_FALSE(back.validation_loss);
  step.validation_loss = 0.5;
  step.batch = 24;
  step.samples_seen = 72;
  EXPECT_EQ(round_trip(step).validation_loss, 0.5);
  EXPECT_EQ(round_trip(step).batch, 24);
  EXPECT_EQ(round_trip(step).samples_seen, 72);
}

TEST(Messages, HelloAndPartsComeBackEqual) {
  const Hello hello = round_trip(Hello{worker(9), 12, 256, 3e9, 4e10, "two volumes"});
  EXPECT_EQ(hello.worker, worker(9));
  EXPECT_EQ(parse_address(hello.worker.address).tcp_port, 4711);
  const CheckpointPart part = round_trip(
      CheckpointPart{4, 3, 2, 1, 5, {{"a.weight", {3, 4}}, {"count", {}, "I64", false}}, 64});
  EXPECT_EQ(part.samples_seen, 64);
  ASSERT_EQ(part.parameters.size(), 2u);
  EXPECT_EQ(part.parameters[0].shape, (std::vector<int64_t>{3, 4}));
  EXPECT_TRUE(part.parameters[0].trained);
  EXPECT_EQ(part.parameters[1].dtype, "I64");
  EXPECT_FALSE(part.parameters[1].trained);
}

TEST(Messages, TheLogComesBackEqual) {
  cluster::LogRecord record;
  record.sequence = 4;
  record.membership = {Generation(7), false, {{worker(5)}}};
  record.decision = decision();
  record.decided_members = {{worker(5)}};
  record.primaries = {WorkerId(5), WorkerId(6)};
  record.phase = cluster::JobPhase::kTraining;
  record.checkpoint = {Step(10), 80};
  record.sizes.set({Step(11), 80, 8});
  record.sizes.set({Step(13), 96, 6});
  record.requested = 3;
  EXPECT_EQ(decode_log(encode_log(record)), record);
}

TEST(Messages, GarbageIsAnError) {
  EXPECT_THROW(decode("this is no message"), Error);
  EXPECT_THROW(decode(""), Error);
  EXPECT_THROW(parse_address("no bars"), Error);
}

}  // namespace
}  // namespace craton::protocol
