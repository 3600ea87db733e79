#include "craton/protocol/agent_messages.h"

#include <gtest/gtest.h>

#include "craton/base/error.h"

namespace craton::protocol {
namespace {

using std::chrono::milliseconds;

template <typename Event>
Event event_over_the_wire(const Event& event) {
  return std::get<Event>(decode_agent_event(encode(AgentEvent(event))));
}

template <typename Command>
Command command_over_the_wire(const Command& command) {
  return std::get<Command>(decode_agent_command(encode(AgentCommand(command))));
}

TEST(AgentMessages, EventsSurviveTheWire) {
  const auto hello = event_over_the_wire(AgentHello{"n3", 8, 77, {{4, 900, cluster::WorkerId(9)}}});
  EXPECT_EQ(hello.node, "n3");
  EXPECT_EQ(hello.slots, 8);
  EXPECT_EQ(hello.pid, 77);
  EXPECT_EQ(hello.live, (std::vector<LiveWorker>{{4, 900, cluster::WorkerId(9)}}));
  const auto started = event_over_the_wire(WorkerStarted{4, 900});
  EXPECT_EQ(started.number, 4);
  EXPECT_EQ(started.pid, 900);
  const auto said = event_over_the_wire(WorkerSaid{4, "n3", 900, Failed{"no data", true}});
  EXPECT_EQ(said.number, 4);
  EXPECT_EQ(said.node, "n3");
  EXPECT_EQ(std::get<Failed>(said.message).message, "no data");
  const auto ended = event_over_the_wire(WorkerEnded{4, "ended with exit code 3", "last words"});
  EXPECT_EQ(ended.how, "ended with exit code 3");
  EXPECT_EQ(ended.last_words, "last words");
  const AgentProgress progress{
      {{4, {cluster::StepPhase::kStore, Step(9), 77, true}, milliseconds(40)}}};
  EXPECT_EQ(event_over_the_wire(progress).workers, progress.workers);
  EXPECT_EQ(event_over_the_wire(NodeLeaving{30000}).grace_milliseconds, 30000);
}

TEST(AgentMessages, CommandsSurviveTheWire) {
  const auto offer = command_over_the_wire(JobOffer{"demo", "train: {steps: 3}", "/here", "abc"});
  EXPECT_EQ(offer.name, "demo");
  EXPECT_EQ(offer.recipe, "train: {steps: 3}");
  EXPECT_EQ(offer.folder, "/here");
  EXPECT_EQ(offer.operator_id, "abc");
  const auto start = command_over_the_wire(StartWorker{7, "n1"});
  EXPECT_EQ(start.number, 7);
  EXPECT_EQ(start.node, "n1");
  const cluster::Membership membership{Generation(5), true, {}};
  const auto tell = command_over_the_wire(TellWorker{7, membership});
  EXPECT_EQ(std::get<cluster::Membership>(tell.message), membership);
  EXPECT_EQ(command_over_the_wire(KillWorker{7}).number, 7);
  command_over_the_wire(Heartbeat{});
  const auto end = command_over_the_wire(EndAgent{true, "why"});
  EXPECT_TRUE(end.failed);
  EXPECT_EQ(end.reason, "why");
}

TEST(AgentMessages, WhatIsNoMessage) {
  for (const char* bytes : {"", "garbage", "\xff\xff\xff"}) {
    EXPECT_THROW(decode_agent_event(bytes), Error);
    EXPECT_THROW(decode_agent_command(bytes), Error);
  }
}

}  // namespace
}  // namespace craton::protocol
