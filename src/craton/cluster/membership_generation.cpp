#include <algorithm>

#include "craton/base/check.h"
#include "craton/cluster/membership_turn.h"

namespace craton::cluster {
namespace {

std::string describe(const Decision& decision) {
  switch (decision.kind) {
    case DecisionKind::kRollForward:
      return fmt::format("step {} is rolled forward", decision.step.value());
    case DecisionKind::kRestore:
      return fmt::format(
          "all copies of a shard are gone: back to the checkpoint of step {}, {} finished steps "
          "are computed again",
          decision.step.value(), decision.lost_steps);
    case DecisionKind::kRecompute:
      break;
  }
  int kept = 0, computed = 0;
  for (const MicroBatchShare& share : decision.shares) {
    for (const MicroBatchRange& range : share.keep) kept += range.size();
    for (const MicroBatchRange& range : share.compute) computed += range.size();
  }
  return fmt::format("step {}: {} micro-batches to compute, {} kept", decision.step.value(),
                     computed, kept);
}

/// What a step begins to have with this decision, if that changes.
std::string describe_sizes(const Decision& decision) {
  if (decision.later_micro_batches == decision.micro_batches) return "";
  return fmt::format("; later steps have {} instead of {}", decision.later_micro_batches,
                     decision.micro_batches);
}

}  // namespace

std::vector<WorkerId> Turn::member_ids() const {
  std::vector<WorkerId> ids;
  for (const Member& member : log_.membership.members) {
    if (is_member(member.worker.id)) ids.push_back(member.worker.id);
  }
  return ids;
}

/// Persists the next generation before anyone hears of it. `readmitted`: fenced workers whose
/// copies are needed (R10).
void Turn::open_generation(Cause cause, const std::string& why,
                           const std::vector<WorkerId>& readmitted) {
  const bool keeps_workers = state_.options.keep_processes && state_.options.keep_connections;
  if (!keeps_workers && cause == Cause::kFailure && !log_.decided_members.empty())
    return begin_anew(why);
  // While nobody computes there is no step boundary to wait for.
  const bool planned = cause == Cause::kPlanned &&
                       (log_.phase == JobPhase::kTraining || log_.phase == JobPhase::kBoundary);
  for (WorkerId id : readmitted) {
    state_.workers.at(id).state = State::kMember;
    log_.membership.members.push_back({state_.workers.at(id).info, Role::kTraining});
    publish("readmitted", id, "a fenced worker still has the last copy of a shard");
  }
  ObservedSize observed = observe(true);
  observed.stopped = !planned;
  const SizeDecision size = decide_size(state_.options.elastic, observed, now_);
  if (size.wake_at) wake_at(*size.wake_at);
  std::vector<Member> plan = plan_members(
      size.size > 0 ? size.size : observed.training + observed.draining + observed.ready);

  log_.membership.generation = log_.membership.generation.next();
  log_.membership.planned = planned;
  log_.membership.members = std::move(plan);
  log_.decision.reset();
  log_.phase = planned ? JobPhase::kBoundary : JobPhase::kRecovering;
  state_.reports.clear();
  state_.opened_at = now_;
  state_.waiting_published = false;

  std::vector<WorkerId> to;
  for (const Member& member : log_.membership.members) {
    WorkerRecord& record = state_.workers.at(member.worker.id);
    if (record.state != State::kMember) {
      publish("admitted", member.worker.id, "a worker on {} joins", record.info.node);
      record.since = now_;
    }
    record.state = State::kMember;
    record.finished = false;
    to.push_back(member.worker.id);
  }
  for (const auto& [id, record] : state_.workers) {
    if (record.state == State::kFenced) to.push_back(id);
  }
  persist();
  act(Announce{log_.membership, std::move(to)});
  publish("generation", std::nullopt, "{} of {} workers, {}: {}",
          training_members(log_.membership.members), log_.requested,
          planned ? "at the next step boundary" : "at once", why);
  wake_at(now_ + (planned ? state_.options.boundary_timeout : state_.options.report_timeout));
}

/// Ends all workers of the job, or lets them forget all; the job starts again from the checkpoint.
void Turn::begin_anew(const std::string& why) {
  for (auto it = state_.workers.begin(); it != state_.workers.end();) {
    if (it->second.state == State::kReady) {
      ++it;
      continue;
    }
    if (state_.options.keep_processes && it->second.state == State::kMember) {
      act(RestartWorker{it->first});
      state_.starting.push_back(now_ + state_.options.start_timeout);
    } else {
      act(StopWorker{it->first, why});
    }
    it = state_.workers.erase(it);
  }
  const int64_t lost =
      std::max<int64_t>(0, state_.committed.value() - log_.checkpoint.step.value());
  state_.lost_in_restart += lost;
  state_.committed = std::min(state_.committed, log_.checkpoint.step);
  state_.reports.clear();
  log_.membership.members.clear();
  log_.decided_members.clear();
  log_.primaries.clear();
  log_.sizes = {};
  log_.decision.reset();
  log_.phase = JobPhase::kStarting;
  persist();
  publish(
      "restart", std::nullopt,
      "{}: all workers start anew from the checkpoint of step {}, {} finished steps are computed "
      "again",
      why, log_.checkpoint.step.value(), lost);
  consider_size();
}

bool Turn::waits_for_fenced(const Verdict& verdict) {
  // Only members of the last decided generation count: nobody can have committed anything without
  // them since.
  std::vector<WorkerId> useful;
  bool waits = false;
  for (const auto& [id, record] : state_.workers) {
    if (record.state != State::kFenced || !is_fenced_decided(id)) continue;
    const auto report = state_.reports.find(id);
    if (report == state_.reports.end()) {
      const Instant until = std::max(record.since, *state_.opened_at) +
                            state_.options.lease;  // each generation asks anew
      if (now_ >= until) continue;
      waits = true;
      wake_at(until);
      continue;
    }
    const auto& copies = report->second.copies;
    const bool has_lost = std::any_of(copies.begin(), copies.end(), [&](const CopyState& copy) {
      return copy.complete &&
             std::find(verdict.lost.begin(), verdict.lost.end(), copy.shard) != verdict.lost.end();
    });
    if (has_lost) useful.push_back(id);
  }
  if (!useful.empty()) {
    open_generation(Cause::kFailure, "a fenced worker still has the last copy of a shard", useful);
    return true;
  }
  return waits;
}

bool Turn::is_fenced_decided(WorkerId worker) const {
  return rank_of(log_.decided_members, worker).has_value();
}

/// Decides the undecided generation, if all its members have reported and the size allows it.
void Turn::consider_decision() {
  if (is_terminal(log_.phase) || log_.decision || log_.phase == JobPhase::kStarting) return;
  if (log_.phase == JobPhase::kRecovering) {
    const SizeDecision size = decide_size(state_.options.elastic, observe(), now_);
    if (size.wake_at) wake_at(*size.wake_at);
    if (size.wait) {
      if (!std::exchange(state_.waiting_published, true))
        publish("waiting", std::nullopt, "{}", size.reason);
      return;
    }
    if (size.change) {
      open_generation(Cause::kFailure, std::string(size.reason));
      return;
    }
  }
  const auto& members = log_.membership.members;
  for (const Member& member : members) {
    if (!state_.reports.contains(member.worker.id)) return;
  }
  std::vector<Report> reports;
  for (const Member& member : members) reports.push_back(state_.reports.at(member.worker.id));
  Verdict verdict = judge(state_.options.shape.shards, reports);
  const bool first = log_.decided_members.empty();
  if (!state_.options.peer_state && !first && log_.phase == JobPhase::kRecovering) {
    verdict.kind = Verdict::Kind::kLoss;
  } else if (verdict.kind == Verdict::Kind::kLoss && !first && waits_for_fenced(verdict)) {
    return;
  }
  // No copy lags so far behind; if one does, nobody knows which samples its next step had.
  const bool scales = state_.options.shape.reference > 0;
  if (scales && !log_.sizes.at(verdict.step)) verdict.kind = Verdict::Kind::kLoss;
  conclude(verdict, reports);
}

void Turn::conclude(const Verdict& verdict, const std::vector<Report>& reports) {
  const auto& members = log_.membership.members;
  const bool first = log_.decided_members.empty();
  Decision decision = complete_decision(state_.options.shape, log_.membership, reports, verdict,
                                        log_.primaries, log_.checkpoint, log_.sizes);
  if (state_.options.shape.reference > 0) note_sizes(decision, log_.sizes);
  const Step resumes_after = decision.kind == DecisionKind::kRestore
                                 ? log_.checkpoint.step
                                 : Step(decision.step.value() - 1);
  if (first || decision.kind == DecisionKind::kRollForward) {
    decision.lost_steps = std::exchange(state_.lost_in_restart, 0);
  } else {
    // Also a recomputation may go back, when only older copies have survived more losses than there
    // were copies.
    decision.lost_steps =
        std::max<int64_t>(decision.lost_steps, state_.committed.value() - resumes_after.value());
    state_.committed = std::min(state_.committed, resumes_after);
  }
  log_.primaries.clear();
  for (const auto& holders : decision.placement.holders)
    log_.primaries.push_back(members[holders[0].value()].worker.id);
  log_.decision = std::move(decision);
  log_.decided_members = members;
  log_.phase = JobPhase::kTraining;
  const int size = training_members(members);
  log_.proven = std::max(log_.proven, size);
  persist();
  act(SendDecision{*log_.decision, member_ids()});
  state_.decided_at = state_.last_change = now_;
  publish_decision(first);
  release_fenced("its generation has ended");
  if (members.size() > static_cast<size_t>(size)) wake_at(now_ + state_.options.drain_timeout);
  consider_size();
}

void Turn::publish_decision(bool first) {
  if (log_.decision->kind == DecisionKind::kRestore ? !first : log_.decision->lost_steps > 0) {
    publish("loss", std::nullopt, "{}", describe(*log_.decision));
  }
  const int copies = static_cast<int>(log_.decision->placement.holders[0].size());
  if (!state_.options.shape.replicate_all && copies < 1 + state_.options.shape.backups) {
    publish("degraded", std::nullopt,
            "{} copies of each shard instead of {}: too few failure domains", copies,
            1 + state_.options.shape.backups);
  }
  publish("decision", std::nullopt, "{} ms after the fence: {}{}",
          (now_ - *state_.opened_at).count(),
          first ? std::string("the job starts") : describe(*log_.decision),
          describe_sizes(*log_.decision));
}

void Turn::release_fenced(const std::string& why) {
  for (auto it = state_.workers.begin(); it != state_.workers.end();) {
    if (it->second.state != State::kFenced) {
      ++it;
      continue;
    }
    act(StopWorker{it->first, why});
    it = state_.workers.erase(it);
  }
}

}  // namespace craton::cluster
