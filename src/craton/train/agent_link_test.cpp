#include "craton/train/agent_link.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <future>

#include "craton/runtime/file.h"
#include "craton/runtime/socket.h"

namespace craton::train {
namespace {

/// An agent's end, and a worker's link that keeps what it was fenced for.
class AgentLinkOfAWorker : public testing::Test {
 protected:
  AgentLinkOfAWorker() {
    auto [agent, worker] = runtime::MessageChannel::pair();
    agent_ = std::move(agent);
    link_ =
        std::make_unique<AgentLink>(worker.release(), AgentLinkOptions{}, [this](Generation next) {
          if (next == Generation(2)) fenced_.set_value();
        });
  }
  void announce(uint64_t generation, bool planned) {
    agent_->send(protocol::encode(cluster::Membership{Generation(generation), planned, {}}));
  }

  std::unique_ptr<runtime::MessageChannel> agent_;
  std::promise<void> fenced_;
  std::unique_ptr<AgentLink> link_;
};

TEST_F(AgentLinkOfAWorker, AnUnplannedGenerationEndsWaitsAtOnce) {
  announce(2, false);
  ASSERT_EQ(fenced_.get_future().wait_for(std::chrono::minutes(1)), std::future_status::ready);
  EXPECT_EQ(link_->await_membership(Generation(1))->generation, Generation(2));
  EXPECT_TRUE(link_->heard_of_next(Generation(1)));
}

TEST_F(AgentLinkOfAWorker, APlannedGenerationWaitsForTheStepBoundary) {
  announce(2, true);
  EXPECT_EQ(link_->await_membership(Generation(1))->generation, Generation(2));
  EXPECT_TRUE(link_->heard_of_next(Generation(1)));
  EXPECT_EQ(fenced_.get_future().wait_for(std::chrono::seconds(0)), std::future_status::timeout);
}

TEST_F(AgentLinkOfAWorker, ANewerMembershipEndsTheWaitForADecision) {
  announce(2, false);
  (void)link_->await_membership(Generation(1));
  announce(3, false);
  EXPECT_FALSE(link_->await_decision(Generation(2)).has_value());
}

TEST_F(AgentLinkOfAWorker, BeginningAnewEndsAllWaits) {
  announce(1, false);
  ASSERT_TRUE(link_->await_membership(Generation(0)));
  agent_->send(protocol::encode(protocol::BeginAnew{}));
  EXPECT_FALSE(link_->await_membership(Generation(1)));
  EXPECT_EQ(fenced_.get_future().wait_for(std::chrono::minutes(1)), std::future_status::ready);
  EXPECT_TRUE(link_->take_begin_anew());
  EXPECT_FALSE(link_->take_begin_anew());
}

/// What the agent hears next, within a minute.
template <typename T>
T hear(runtime::MessageChannel& channel) {
  const auto bytes = channel.receive(std::chrono::minutes(1));
  return bytes ? std::get<T>(protocol::decode(*bytes)) : T{};
}

TEST(AgentLink, TheNextAgentHearsWhatTheLastOneMayHaveMissed) {
  const runtime::TemporaryDirectory folder;
  auto [first, socket] = runtime::MessageChannel::pair();
  AgentLinkOptions options;
  options.agent_folder = folder.path();
  AgentLink link(socket.release(), options, [](Generation) {});
  protocol::Hello hello;
  hello.worker.id = cluster::WorkerId(7);
  hello.worker.address = protocol::to_text({7, "h", "s", "t", 1});
  link.introduce(hello);
  link.took_part(Generation(3));
  protocol::StepDone step;
  step.step = 5;
  link.send(step);

  const std::string name = "craton-agent-link-test-" + std::to_string(::getpid());
  const runtime::FileDescriptor listener = runtime::listen_local(name);
  runtime::write_file_atomically(folder.path() / "agent.socket", name);
  first.reset();
  std::unique_ptr<runtime::MessageChannel> next;
  pollfd entry{listener.get(), POLLIN, 0};
  ASSERT_EQ(::poll(&entry, 1, 60000), 1);
  next = runtime::MessageChannel::accept(listener.get());
  ASSERT_TRUE(next);
  const auto again = hear<protocol::Hello>(*next);
  EXPECT_EQ(again.worker.id, cluster::WorkerId(7));
  EXPECT_EQ(again.generation, 3u);
  EXPECT_EQ(hear<protocol::StepDone>(*next).step, 5);
  EXPECT_EQ(next->peer_pid(), ::getpid());
}

}  // namespace
}  // namespace craton::train
