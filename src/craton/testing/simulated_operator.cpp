#include <algorithm>

#include "craton/testing/simulation.h"

namespace craton::testing {

void Simulation::start_operator() {
  restart_at_.reset();
  wake_at_.reset();
  operator_.emplace();
  operator_->options = membership_options_;
  to_operator_.clear();
  if (!started_) {
    started_ = true;
    feed(*operator_, OperatorStarted{});
    return;
  }
  trace("the operator restarts");
  feed(*operator_, OperatorStarted{stored_.sequence > 0 ? std::optional(stored_) : std::nullopt});
  for (auto& [id, process] : processes_) process->worker.say_hello();
  std::vector<Member> known = stored_.membership.members;
  known.insert(known.end(), stored_.decided_members.begin(), stored_.decided_members.end());
  for (const Member& member : known) {
    const WorkerId id = member.worker.id;
    if (!processes_.contains(id)) to_operator_[id].push_back({{}, WorkerExited{id, gone_[id], ""}});
  }
}

void Simulation::feed(MembershipState& op, decltype(Event::what) what) {
  carry_out(op, decide(op, {now_, std::move(what)}));
}

void Simulation::carry_out(MembershipState& op, const std::vector<Action>& actions) {
  const bool may_crash = options_.operator_faults && faults_left_ > 0 && &op == &*operator_ &&
                         started_ && stored_.sequence > 0;
  for (size_t i = 0; i < actions.size(); ++i) {
    const Action& action = actions[i];
    if (may_crash && random(250) == 0) {
      --faults_left_;
      crash_operator({actions.begin() + static_cast<std::ptrdiff_t>(i), actions.end()});
      return;
    }
    if (const auto* a = std::get_if<Persist>(&action)) {
      if (!persist(op, *a)) {
        decide(op, {now_, PersistRefused{}});
        return;
      }
    } else if (const auto* a = std::get_if<Announce>(&action)) {
      trace("operator: g{} {}, {} members", a->membership.generation.value(),
            a->membership.planned ? "planned" : "at once", a->membership.members.size());
      result_.generations =
          std::max(result_.generations, static_cast<int>(a->membership.generation.value()));
      for (WorkerId id : a->to) {
        if (processes_.contains(id)) processes_.at(id)->from_operator.push_back(*a);
      }
    } else if (const auto* a = std::get_if<SendDecision>(&action)) {
      note_decision(a->decision);
      for (WorkerId id : a->to) {
        if (processes_.contains(id)) processes_.at(id)->from_operator.push_back(*a);
      }
    } else if (const auto* a = std::get_if<StartWorkers>(&action)) {
      for (int i = 0; i < a->count; ++i) start_process();
    } else if (const auto* a = std::get_if<StopWorker>(&action)) {
      if (processes_.contains(a->worker)) processes_.at(a->worker)->from_operator.push_back(Stop{});
    } else if (const auto* a = std::get_if<PublishEvent>(&action)) {
      trace("  {}: {}", a->kind, a->text);
    } else if (const auto* a = std::get_if<WakeAt>(&action)) {
      if (operator_ && &op == &*operator_) wake_at_ = a->at;
    } else if (const auto* a = std::get_if<EndJob>(&action)) {
      ended_ = true;
      if (a->phase != JobPhase::kFinished) violate("the job ended badly: " + a->reason);
    }
  }
}

bool Simulation::persist(MembershipState& op, const Persist& action) {
  const bool fits = action.record.sequence == stored_.sequence + 1;
  if (!fits && !mutated(Mutation::kNoCompareAndSwap)) return false;
  if (mutated(Mutation::kNoPersist) && stored_.sequence > 0 && random(2)) {
    stored_.sequence = action.record.sequence;  // still in a buffer when the next crash comes
  } else {
    stored_ = action.record;
  }
  return true;
}

void Simulation::note_decision(const Decision& decision) {
  trace("operator decides in g{}: {} step {}", decision.generation.value(),
        static_cast<int>(decision.kind), decision.step.value());
  // A restarted operator sends its newest decision again, a paused one what it has left: old news
  // to all who hear it.
  if (decision == last_decision_ || decision.generation < last_decision_.generation) return;
  last_decision_ = decision;
  switch (decision.kind) {
    case DecisionKind::kRollForward:
      ++result_.roll_forwards;
      // Who had applied it may have begun the next one, but that can have come to nothing.
      begun_.erase(begun_.upper_bound(decision.step.value()), begun_.end());
      break;
    case DecisionKind::kRecompute:
      ++result_.recomputations;
      check_rollback(decision);
      break;
    case DecisionKind::kRestore:
      check_loss(decision);
      break;
  }
  decided_before_ = stored_.decided_members;
}

/// Failure domains of the newest commit's members that the generation just decided (and persisted)
/// is without.
size_t Simulation::lost_domains() const {
  std::vector<std::string> nodes;
  for (const Member& m : committed_members_.members) nodes.push_back(m.worker.node);
  const std::vector<int32_t> domains = failure_domains(nodes);
  std::set<int32_t> lost;
  for (size_t r = 0; r < nodes.size(); ++r) {
    if (!rank_of(stored_.membership.members, committed_members_.members[r].worker.id))
      lost.insert(domains[r]);
  }
  return lost.size();
}

/// Beyond redundancy, older copies may be all that is left: then finished steps are computed again.
void Simulation::check_rollback(const Decision& decision) {
  const size_t step = static_cast<size_t>(decision.step.value());
  if (step > history_.size() || decision.generation <= history_from_) return;
  if (lost_domains() < committed_copies_) {
    violate(fmt::format("step {} is to be computed again, but it is committed", step));
  }
  ++result_.losses;
  history_from_ = decision.generation;
  forget_steps_after(decision.step.value() - 1);
}

void Simulation::forget_steps_after(int64_t step) {
  if (static_cast<int64_t>(history_.size()) > step) history_.resize(static_cast<size_t>(step));
  begun_.erase(begun_.upper_bound(step), begun_.end());
}

void Simulation::check_loss(const Decision& decision) {
  if (decision.generation <= history_from_ || (history_.empty() && decision.step.value() == 0)) {
    history_from_ = std::max(history_from_, decision.generation);
    forget_steps_after(decision.step.value());
    return;
  }
  ++result_.losses;
  history_from_ = decision.generation;
  forget_steps_after(decision.step.value());
  const size_t lost = lost_domains();
  if (lost < committed_copies_) {
    violate(fmt::format(
        "a loss is declared although only {} failure domains are gone and there were {} copies",
        lost, committed_copies_));
  }
  const auto& members = stored_.membership.members;
  committed_members_ = {};
  committed_copies_ = 0;
  // What a member reported before it died just now is not known here, so then nothing is said about
  // fenced holders.
  for (const Member& member : members) {
    if (!processes_.contains(member.worker.id)) return;
  }
  std::set<ShardId> covered;
  for (const auto& [id, process] : processes_) {
    if (!rank_of(members, id)) continue;
    for (const auto& [shard, copy] : process->worker.copies()) covered.insert(ShardId(shard));
  }
  for (const auto& [id, process] : processes_) {
    if (rank_of(members, id) || !rank_of(decided_before_, id) || process->was_paused) continue;
    for (const auto& [shard, copy] : process->worker.copies()) {
      if (copy.complete && !covered.contains(ShardId(shard))) {
        violate(fmt::format("a loss is declared although the fenced w{} lives and has shard {}",
                            id.value(), shard));
      }
    }
  }
}

/// Ends the operator in the middle of its actions, or only stops it: then it wakes up later and
/// goes on with them.
void Simulation::crash_operator(std::vector<Action> unfinished) {
  trace("the operator crashes");
  if (random(2)) {
    zombie_ = std::move(operator_);
    zombie_actions_ = std::move(unfinished);
    zombie_at_ = now_ + milliseconds(random(600));
  }
  operator_.reset();
  restart_at_ = now_ + milliseconds(random(400));
  for (auto& [id, process] : processes_) {
    auto& queue = process->from_operator;
    queue.resize(queue.size() - random(queue.size() + 1));
  }
}

/// An operator that was only paused: it believes that a member is lost and acts on it.
void Simulation::wake_zombie_operator() {
  trace("an old operator wakes up");
  zombie_at_.reset();
  carry_out(*zombie_, std::exchange(zombie_actions_, {}));
  if (operator_) {
    std::vector<Member> members = zombie_->log.membership.members;
    if (!members.empty()) {
      const WorkerId victim = members[random(members.size())].worker.id;
      feed(*zombie_, WorkersSuspected{{victim}, "an old operator's opinion"});
    }
  }
  zombie_.reset();
}

void Simulation::forge_reports() {
  if (operator_->reports.empty() || operator_->log.decision || random(8)) return;
  const Membership membership = operator_->log.membership;
  for (const Member& member : membership.members) {
    if (operator_->reports.contains(member.worker.id)) continue;
    feed(*operator_,
         ReportReceived{{.worker = member.worker.id, .generation = membership.generation}});
    if (!operator_) return;
  }
}

}  // namespace craton::testing
