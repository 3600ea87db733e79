#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "craton/cluster/membership_turn.h"

namespace craton::cluster {

int most_workers(const MembershipOptions& options) {
  const int most = options.elastic.max_workers;
  return options.shape.reference > 0 ? most : std::min(most, options.shape.micro_batches);
}

std::string why_not_size(const MembershipOptions& options, int workers) {
  const ElasticPolicy& elastic = options.elastic;
  if (options.shape.reference == 0 && workers > options.shape.micro_batches) {
    return fmt::format("{} workers cannot share the {} micro-batches of a step; ask for at most {}",
                       workers, options.shape.micro_batches, most_workers(options));
  }
  if (workers > elastic.max_workers)
    return fmt::format("{} is more than max_workers ({}) of the recipe", workers,
                       elastic.max_workers);
  if (workers < elastic.min_workers)
    return fmt::format("{} is fewer than min_workers ({}) of the recipe", workers,
                       elastic.min_workers);
  if (const int size = permitted_size(elastic, workers); size != workers) {
    return fmt::format(
        "{} is not one of the sizes that the recipe allows; the next smaller one is {}", workers,
        size);
  }
  return "";
}

bool Turn::can_train(const Member& member) const {
  if (!is_member(member.worker.id)) return false;
  if (member.role != Role::kLeaving) return true;
  if (log_.decision) return false;
  const auto rank = rank_of(log_.decided_members, member.worker.id);
  return rank && log_.decided_members[rank->value()].role == Role::kTraining;
}

ObservedSize Turn::observe(bool planning) const {
  ObservedSize o;
  o.requested = std::min(log_.requested, most_workers(state_.options));
  o.proven = log_.proven;
  o.explicit_request = state_.explicit_request;
  o.stopped = log_.phase == JobPhase::kRecovering && !log_.decision;
  o.last_change = state_.last_change;
  o.last_failure = state_.last_failure;
  o.failures = state_.failures;
  o.starting = static_cast<int>(state_.starting.size());
  for (const Member& member : log_.membership.members) {
    if (planning ? !can_train(member) : !is_member(member.worker.id)) continue;
    const WorkerRecord& record = state_.workers.at(member.worker.id);
    if (!planning && member.role != Role::kTraining) {
      if (member.role == Role::kLeftOver && !record.draining) ++o.left_over;
      continue;
    }
    ++(record.draining ? o.draining : o.training);
    if (record.draining && record.drain_deadline &&
        (!o.drain_deadline || *record.drain_deadline < *o.drain_deadline)) {
      o.drain_deadline = record.drain_deadline;
    }
  }
  for (const auto& [id, record] : state_.workers) {
    if (!is_admissible(record)) continue;
    ++o.ready;
    o.ready_since = std::max(o.ready_since.value_or(record.since), record.since);
  }
  return o;
}

/// Takes spares in until `size` train, always one of the emptiest node.
void Turn::join_spares(int size, std::map<std::string, int>& on_node,
                       std::vector<Member>& training) const {
  using Key = std::tuple<int, Instant, WorkerId>;  // the node's load, then the longest waiting
  std::map<std::string, std::set<std::pair<Instant, WorkerId>>> waiting;
  for (const auto& [id, record] : state_.workers) {
    if (is_admissible(record)) waiting[record.info.node].insert({record.since, id});
  }
  std::set<Key> next;  // of each node, the one whose turn it is there
  const auto enter = [&](const std::string& node) {
    const auto& queue = waiting[node];
    if (!queue.empty()) next.insert({on_node[node], queue.begin()->first, queue.begin()->second});
  };
  for (const auto& [node, queue] : waiting) enter(node);
  while (static_cast<int>(training.size()) < size && !next.empty()) {
    const WorkerInfo& in = state_.workers.at(std::get<WorkerId>(*next.begin())).info;
    next.erase(next.begin());
    training.push_back({in, Role::kTraining});
    ++on_node[in.node];
    waiting[in.node].erase(waiting[in.node].begin());
    enter(in.node);
  }
}

int Turn::places_for_left_over(int size) const {
  const ObservedSize observed = observe(true);
  return permitted_size(state_.options.elastic, observed.requested) + state_.options.spares - size -
         observed.ready;
}

/// The members of the next generation: live members in rank order, joiners from the emptiest nodes,
/// then whoever is left over or leaves. Draining members leave unless the size needs them.
std::vector<Member> Turn::plan_members(int size) const {
  std::vector<Member> training, leaving;
  std::map<std::string, int> on_node;
  std::vector<WorkerInfo> draining;
  for (const Member& member : log_.membership.members) {
    if (!is_member(member.worker.id)) continue;
    if (!can_train(member)) {
      leaving.push_back(member);
    } else if (state_.workers.at(member.worker.id).draining) {
      draining.push_back(member.worker);
    } else {
      training.push_back({member.worker, Role::kTraining});
      ++on_node[member.worker.node];
    }
  }
  int places = places_for_left_over(size);
  while (static_cast<int>(training.size()) > size) {  // from the fullest node, the last one there
    auto out = training.end() - 1;
    for (auto it = training.begin(); it != training.end(); ++it) {
      if (on_node[it->worker.node] >= on_node[out->worker.node]) out = it;
    }
    --on_node[out->worker.node];
    leaving.insert(leaving.begin(), {out->worker, places-- > 0 ? Role::kLeftOver : Role::kLeaving});
    training.erase(out);
  }
  join_spares(size, on_node, training);
  for (const WorkerInfo& worker : draining) {
    if (static_cast<int>(training.size()) < size) {
      training.push_back({worker, Role::kTraining});
    } else {
      leaving.push_back({worker, Role::kLeaving});
    }
  }
  training.insert(training.end(), leaving.begin(), leaving.end());
  return training;
}

void Turn::consider_size() {
  if (is_terminal(log_.phase)) return;
  const ElasticPolicy& elastic = state_.options.elastic;
  const ObservedSize observed = observe();
  if (log_.phase == JobPhase::kStarting) {
    const int wanted = permitted_size(elastic, observed.requested);
    const int possible = permitted_size(elastic, std::min(observed.ready, wanted));
    const bool nobody_else_comes =
        observed.starting == 0 && (!state_.starts_allowed_at || now_ >= *state_.starts_allowed_at);
    if (possible > 0 && (possible == wanted || nobody_else_comes))
      open_generation(Cause::kFailure, "the job starts");
  } else if (log_.phase == JobPhase::kTraining) {
    const bool somebody_leaves = std::any_of(
        log_.membership.members.begin(), log_.membership.members.end(),
        [&](const Member& m) { return m.role != Role::kTraining && is_member(m.worker.id); });
    const SizeDecision size = decide_size(elastic, observed, now_);
    if (size.wake_at) wake_at(*size.wake_at);
    if (somebody_leaves) {
      // It goes with the first commit of this generation; the next change waits for that.
    } else if (size.change) {
      open_generation(Cause::kPlanned, std::string(size.reason));
    } else if (observed.training == observed.requested) {
      state_.explicit_request = false;
    }
  } else if (log_.phase == JobPhase::kRecovering && !log_.decision) {
    consider_decision();
  }
  if (!is_terminal(log_.phase)) consider_starts();
}

void Turn::consider_starts() {
  if (state_.starts_allowed_at && now_ < *state_.starts_allowed_at) {
    wake_at(*state_.starts_allowed_at);
    return;
  }
  const StartDecision start =
      decide_starts(state_.options.elastic, observe(), state_.options.spares, now_);
  if (start.wake_at) wake_at(*start.wake_at);
  if (start.count == 0) return;
  StartWorkers action{.count = start.count};
  for (const auto& [node, deadline] : state_.drained_nodes) action.avoid_nodes.push_back(node);
  const Instant deadline = now_ + state_.options.start_timeout;
  state_.starting.insert(state_.starting.end(), start.count, deadline);
  wake_at(state_.starting.front());
  act(std::move(action));
}

}  // namespace craton::cluster
