#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "craton/cluster/membership.h"

namespace craton::testing {

using namespace cluster;  // NOLINT: the words of the protocol
using std::chrono::milliseconds;

/// An operator with workers that answer at once, unless a test keeps them quiet.
class MembershipTest : public ::testing::Test {
 protected:
  MembershipTest() {
    options.shape = {.shards = 8, .micro_batches = 8, .backups = 1};
    options.elastic = {.min_workers = 1, .max_workers = 4};
    options.start_workers = 3;
    options.fingerprint = std::string("f");  // GCC 12 sees an overlap in an assignment of the text
  }

  std::vector<Action> on(decltype(Event::what) what) {
    now += milliseconds(1);
    std::vector<Action> actions = decide(state, {now, std::move(what)});
    for (const Action& action : actions) {
      if (const auto* a = std::get_if<Persist>(&action)) {
        EXPECT_EQ(a->record.sequence, stored.sequence + 1);
        stored = a->record;
      } else if (const auto* a = std::get_if<Announce>(&action)) {
        EXPECT_EQ(stored.membership, a->membership) << "announced before it was durable";
        announced = a->membership;
      } else if (const auto* a = std::get_if<SendDecision>(&action)) {
        EXPECT_EQ(stored.decision, a->decision) << "sent before it was durable";
      }
    }
    all.insert(all.end(), actions.begin(), actions.end());
    return actions;
  }

  static WorkerInfo worker(uint64_t id, std::string fingerprint = "f") {
    return {WorkerId(id), fmt::format("n{}", id), fmt::format("address {}", id),
            std::move(fingerprint)};
  }
  std::vector<Action> ready(uint64_t id) { return on(WorkerReady{worker(id), {}}); }

  std::vector<Action> report(uint64_t id, std::optional<int64_t> version,
                             std::optional<SlotTag> slot = std::nullopt) {
    Report r{.worker = WorkerId(id), .generation = state.log.membership.generation};
    if (version) {
      for (int s = 0; s < options.shape.shards; ++s)
        r.copies.push_back({ShardId(s), Step(*version), slot});
      r.parameters = Step(*version);
    }
    return on(ReportReceived{r});
  }
  void start(int workers) {
    state.options = options;
    on(OperatorStarted{});
    for (int i = 1; i <= workers; ++i) ready(i);
    for (int i = 1; i <= workers; ++i) report(i, std::nullopt);
    ASSERT_EQ(state.log.phase, JobPhase::kTraining);
  }
  std::vector<uint64_t> members(Role role = Role::kTraining) const {
    std::vector<uint64_t> ids;
    for (const Member& m : state.log.membership.members) {
      if (m.role == role) ids.push_back(m.worker.id.value());
    }
    return ids;
  }
  template <typename T>
  static std::vector<T> only(const std::vector<Action>& actions) {
    std::vector<T> found;
    for (const Action& a : actions) {
      if (const auto* t = std::get_if<T>(&a)) found.push_back(*t);
    }
    return found;
  }
  static bool published(const std::vector<Action>& actions, const std::string& kind) {
    for (const PublishEvent& e : only<PublishEvent>(actions)) {
      if (e.kind == kind) return true;
    }
    return false;
  }

  MembershipOptions options;
  MembershipState state;
  LogRecord stored;
  Membership announced;
  std::vector<Action> all;
  milliseconds now{1000};
};

using Ids = std::vector<uint64_t>;

}  // namespace craton::testing
