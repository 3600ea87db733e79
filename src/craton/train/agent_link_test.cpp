#include "craton/train/agent_link.h"

#include <gtest/gtest.h>

#include <future>

namespace craton::train {
namespace {

/// An agent's end, and a worker's link that keeps what it was fenced for.
class AgentLinkOfAWorker : public testing::Test {
 protected:
  AgentLinkOfAWorker() {
    auto [agent, worker] = runtime::MessageChannel::pair();
    agent_ = std::move(agent);
    link_ = std::make_unique<AgentLink>(worker.release(), [this](Generation next) {
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
  EXPECT_EQ(link_->await_membership(Generation(1)).generation, Generation(2));
  EXPECT_TRUE(link_->heard_of_next(Generation(1)));
}

TEST_F(AgentLinkOfAWorker, APlannedGenerationWaitsForTheStepBoundary) {
  announce(2, true);
  EXPECT_EQ(link_->await_membership(Generation(1)).generation, Generation(2));
  EXPECT_TRUE(link_->heard_of_next(Generation(1)));
  EXPECT_EQ(fenced_.get_future().wait_for(std::chrono::seconds(0)), std::future_status::timeout);
}

TEST_F(AgentLinkOfAWorker, ANewerMembershipEndsTheWaitForADecision) {
  announce(2, false);
  (void)link_->await_membership(Generation(1));
  announce(3, false);
  EXPECT_FALSE(link_->await_decision(Generation(2)).has_value());
}

}  // namespace
}  // namespace craton::train
