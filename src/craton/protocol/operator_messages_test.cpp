#include "craton/protocol/operator_messages.h"

#include <gtest/gtest.h>

#include "craton/base/error.h"
#include "craton/protocol/messages.h"

namespace craton::protocol {
namespace {

using namespace cluster;  // NOLINT: its events and actions
using std::chrono::milliseconds;

const Instant kSent{5000}, kReceived{900000};  // clocks of two hosts

EventBody over_the_wire(const EventBody& event) {
  const auto bytes = encode_event(event, kSent);
  EXPECT_TRUE(bytes);
  return std::get<EventBody>(decode_event(*bytes, kReceived));
}

WorkerInfo worker() {
  return {WorkerId(7), "node-3",
          to_text({.incarnation = 7,
                   .host_id = "h",
                   .local_socket = "s",
                   .tcp_host = "10.0.0.1",
                   .tcp_port = 80}),
          "same"};
}

TEST(OperatorMessages, EventsSurviveTheWire) {
  const auto ready = std::get<WorkerReady>(over_the_wire(WorkerReady{worker(), Generation(4)}));
  EXPECT_EQ(ready.worker, worker());
  EXPECT_EQ(ready.generation, Generation(4));
  for (const ExitKind kind : {ExitKind::kCrash, ExitKind::kDrained, ExitKind::kStopped}) {
    const auto exited =
        std::get<WorkerExited>(over_the_wire(WorkerExited{WorkerId(7), kind, "last words"}));
    EXPECT_EQ(exited.kind, kind);
    EXPECT_EQ(exited.log_tail, "last words");
  }
  EXPECT_EQ(std::get<StartFailed>(over_the_wire(StartFailed{3, "no device"})).count, 3);
  EXPECT_EQ(std::get<WorkersSuspected>(
                over_the_wire(WorkersSuspected{{WorkerId(1), WorkerId(9)}, "silent"}))
                .workers,
            (std::vector{WorkerId(1), WorkerId(9)}));
  EXPECT_EQ(std::get<Stalled>(over_the_wire(Stalled{"all wait"})).why, "all wait");
  EXPECT_EQ(std::get<StepCommitted>(over_the_wire(StepCommitted{Step(12)})).step, Step(12));
  EXPECT_EQ(std::get<WorkerFinished>(over_the_wire(WorkerFinished{WorkerId(5)})).worker,
            WorkerId(5));
  EXPECT_EQ(std::get<ScaleRequested>(over_the_wire(ScaleRequested{6})).workers, 6);
  EXPECT_EQ(std::get<UndrainRequested>(over_the_wire(UndrainRequested{"n"})).node, "n");
  EXPECT_EQ(std::get<CheckpointPublished>(over_the_wire(CheckpointPublished{{Step(20), 90}})).state,
            (DurableState{Step(20), 90}));
  EXPECT_EQ(std::get<StopRequested>(over_the_wire(StopRequested{"enough"})).why, "enough");
}

TEST(OperatorMessages, ADeadlineIsTheTimeThatIsLeft) {
  const auto drain = std::get<DrainRequested>(
      over_the_wire(DrainRequested{"n1", std::nullopt, kSent + milliseconds(30000)}));
  EXPECT_EQ(drain.node, "n1");
  EXPECT_FALSE(drain.worker);
  EXPECT_EQ(drain.deadline, kReceived + milliseconds(30000));
  EXPECT_FALSE(
      std::get<DrainRequested>(over_the_wire(DrainRequested{"", WorkerId(2), std::nullopt}))
          .deadline);
}

TEST(OperatorMessages, ReportsKeepEverything) {
  Report report{.worker = WorkerId(7), .generation = Generation(3)};
  report.copies = {{ShardId(1), Step(4), SlotTag{Step(5), Generation(2)}, true, 99},
                   {ShardId(2), Step(4), std::nullopt, false, 0}};
  report.last_commit = CommitResult{{Step(4), Generation(1)}, 2.5, false};
  report.held = {Step(5), {{0, 2}, {4, 5}}, 6};
  report.parameters = Step(4);
  EXPECT_EQ(std::get<ReportReceived>(over_the_wire(ReportReceived{report})).report, report);
}

TEST(OperatorMessages, ProgressSurvivesTheWire) {
  const AgentProgress progress{
      "n2", {{WorkerId(3), {StepPhase::kStore, Step(9), 77, true}, milliseconds(40)}}};
  EXPECT_EQ(std::get<AgentProgress>(decode_event(*encode_event(progress, kSent), kReceived)),
            progress);
}

TEST(OperatorMessages, ActionsSurviveTheWire) {
  Membership membership{Generation(5), true, {{worker(), Role::kLeaving}}};
  const auto announce =
      std::get<Announce>(decode_action(*encode_action(Announce{membership, {WorkerId(7)}})));
  EXPECT_EQ(announce.membership, membership);
  EXPECT_EQ(announce.to, std::vector{WorkerId(7)});
  Decision decision{.generation = Generation(5),
                    .kind = DecisionKind::kRollForward,
                    .step = Step(8),
                    .slot_generation = Generation(4)};
  decision.commit = CommitResult{{Step(8), Generation(4)}, 1.5, true};
  decision.placement.holders = {{Rank(0), Rank(1)}};
  decision.extras = {{ShardId(0), Rank(2)}};
  decision.transfers = {{ShardId(0), {Rank(1)}, {Rank(0), Rank(2)}}};
  decision.shares = {{{{0, 1}}, {{1, 3}}}};
  decision.needs_parameters = {Rank(1)};
  decision.lost_steps = 2;
  EXPECT_EQ(
      std::get<SendDecision>(decode_action(*encode_action(SendDecision{decision, {}}))).decision,
      decision);
  EXPECT_EQ(
      std::get<StartWorkers>(decode_action(*encode_action(StartWorkers{2, {"n9"}}))).avoid_nodes,
      std::vector<std::string>{"n9"});
  EXPECT_EQ(
      std::get<StopWorker>(decode_action(*encode_action(StopWorker{WorkerId(3), "late"}))).reason,
      "late");
  const auto event = std::get<PublishEvent>(
      decode_action(*encode_action(PublishEvent{"loss", Generation(2), WorkerId(1), "text"})));
  EXPECT_EQ(event.worker, WorkerId(1));
  EXPECT_EQ(event.kind, "loss");
  EXPECT_EQ(std::get<EndJob>(decode_action(*encode_action(EndJob{JobPhase::kFailed, "why"}))).phase,
            JobPhase::kFailed);
}

TEST(OperatorMessages, WhatStaysAtHomeAndWhatIsNoMessage) {
  EXPECT_FALSE(encode_event(EventBody(Tick{}), kSent));
  EXPECT_FALSE(encode_event(EventBody(PersistRefused{}), kSent));
  EXPECT_FALSE(encode_action(Persist{}));
  EXPECT_FALSE(encode_action(WakeAt{}));
  EXPECT_THROW(decode_event("\xff\xff\xff", kReceived), Error);
  EXPECT_THROW(decode_event("", kReceived), Error);
  EXPECT_THROW(decode_action("garbage"), Error);
}

TEST(OperatorRequests, ComeBackEqual) {
  const cluster::Instant here{5000}, there{70000};
  const std::string scale = encode_request(cluster::ScaleRequested{3}, here);
  EXPECT_EQ(std::get<cluster::ScaleRequested>(decode_request(kScaleMethod, scale, there)).workers,
            3);
  const cluster::DrainRequested drain{"", cluster::WorkerId(7), here + cluster::Duration(900)};
  const auto back = std::get<cluster::DrainRequested>(
      decode_request(kDrainMethod, encode_request(drain, here), there));
  EXPECT_EQ(back.worker, cluster::WorkerId(7));
  EXPECT_EQ(back.deadline, there + cluster::Duration(900));  // the time that is left travels
  EXPECT_EQ(decode_answer(encode_answer({true, "done"})), (Answer{true, "done"}));
  EXPECT_THROW(decode_request("/craton.wire.Operator/Dance", scale, there), Error);
  EXPECT_THROW(decode_request(kScaleMethod, "\xff garbage", there), Error);
}

TEST(OperatorRequests, AStatusComesBackEqual) {
  JobStatus status;
  status.name = "demo";
  status.strategy = "zero1";
  status.phase = cluster::JobPhase::kRecovering;
  status.generation = 4;
  status.step = 12;
  status.steps = 100;
  status.checkpoint = 10;
  status.requested = 3;
  status.min_workers = 1;
  status.max_workers = 8;
  status.spares = 1;
  status.loss = 0.25;
  status.seconds_per_step = 0.5;
  status.elapsed_seconds = 9;
  status.pid = 4711;
  status.batch = 48;
  status.learning_rate = 3e-4;
  status.workers = {{cluster::WorkerId(7),
                     2,
                     1,
                     "node-a",
                     4712,
                     "trains",
                     {cluster::StepPhase::kGather, Step(12), 99, true},
                     cluster::Duration(40)}};
  EXPECT_EQ(decode_status(encode_status(status)), status);
  EXPECT_THROW(decode_status("\xff garbage"), Error);
}

}  // namespace
}  // namespace craton::protocol
