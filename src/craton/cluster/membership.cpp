#include "craton/cluster/membership.h"

#include <algorithm>

#include "craton/cluster/membership_turn.h"

namespace craton::cluster {

bool is_terminal(JobPhase phase) {
  return phase == JobPhase::kFinished || phase == JobPhase::kFailed ||
         phase == JobPhase::kStopped || phase == JobPhase::kSuperseded;
}

std::vector<Action> decide(MembershipState& state, const Event& event) {
  Turn turn(state, event.now);
  std::visit([&](const auto& what) { turn.handle(what); }, event.what);
  return turn.finish();
}

std::vector<Action> Turn::finish() {
  if (state_.wake_at && !is_terminal(log_.phase)) act(WakeAt{*state_.wake_at});
  return std::move(actions_);
}

void Turn::wake_at(Instant at) {
  state_.wake_at = state_.wake_at ? std::min(*state_.wake_at, at) : at;
}

void Turn::persist() {
  ++log_.sequence;
  act(Persist{log_});
}

bool Turn::is_member(WorkerId worker) const {
  const auto it = state_.workers.find(worker);
  return it != state_.workers.end() && it->second.state == State::kMember;
}

void Turn::handle(const OperatorStarted& event) {
  if (!event.log) {
    log_.requested =
        std::clamp(state_.options.start_workers, 1, state_.options.elastic.max_workers);
    log_.phase = JobPhase::kStarting;
    consider_starts();
    return;
  }
  log_ = *event.log;
  if (is_terminal(log_.phase)) {
    act(EndJob{log_.phase, log_.reason});
    return;
  }
  persist();  // takes the log over: an earlier operator that still runs is refused from here on
  // Workers that live will be heard of again; until then none is started in their place.
  state_.starts_allowed_at = now_ + state_.options.lease;
  wake_at(*state_.starts_allowed_at);
  if (log_.phase == JobPhase::kStarting) return;
  for (const Member& member : log_.membership.members) {
    state_.workers[member.worker.id] = {
        .info = member.worker, .state = State::kMember, .since = now_};
  }
  for (const Member& member : log_.decided_members) {
    state_.workers.try_emplace(
        member.worker.id,
        WorkerRecord{.info = member.worker, .state = State::kFenced, .since = now_});
  }
  if (log_.decision) {
    log_.phase = JobPhase::kTraining;
    state_.committed = Step(log_.decision->step.value() - 1);
    state_.decided_at = now_;
    act(Announce{log_.membership, member_ids()});  // perhaps it was persisted and never sent
    act(SendDecision{*log_.decision, member_ids()});
    publish("operator", std::nullopt, "restarted: generation {} goes on",
            log_.membership.generation.value());
  } else {
    open_generation(Cause::kFailure, "the operator restarted before a decision");
  }
}

void Turn::handle(const WorkerReady& event) {
  const WorkerInfo& worker = event.worker;
  if (is_terminal(log_.phase)) {
    act(StopWorker{worker.id, "the job has ended"});
    return;
  }
  if (state_.workers.contains(worker.id)) return;  // a member or spare that says hello again
  if (event.generation.value() > 0) {
    act(StopWorker{worker.id, "its generation has ended"});
    return;
  }
  if (!state_.starting.empty()) state_.starting.erase(state_.starting.begin());
  if (state_.options.fingerprint.empty()) state_.options.fingerprint = worker.fingerprint;
  if (worker.fingerprint != state_.options.fingerprint) {
    publish("refused", worker.id,
            "{} on {}: its kernels, build or threads differ (found {}, the job has {}), so its "
            "bits would",
            worker.address, worker.node, worker.fingerprint, state_.options.fingerprint);
    act(StopWorker{worker.id, "fingerprint differs from the job's"});
    return;
  }
  state_.workers[worker.id] = {.info = worker, .state = State::kReady, .since = now_};
  publish("ready", worker.id, "a worker on {} is ready", worker.node);
  consider_size();
}

void Turn::handle(const WorkerExited& event) {
  const auto it = state_.workers.find(event.worker);
  if (it == state_.workers.end()) return;  // stopped and forgotten before
  const WorkerRecord record = it->second;
  const auto rank = rank_of(log_.membership.members, event.worker);
  const bool rests = event.kind == ExitKind::kRests;
  const bool left = record.state == State::kMember && (event.kind == ExitKind::kDrained || rests) &&
                    rank && log_.membership.members[rank->value()].role != Role::kTraining &&
                    log_.phase == JobPhase::kTraining;
  forget(event.worker);
  if (is_terminal(log_.phase)) return;
  if (event.kind == ExitKind::kFatal) {
    publish("lost worker", event.worker, "the worker on {} ended: {}", record.info.node,
            event.log_tail);
    end_job(JobPhase::kFailed, event.log_tail);
    return;
  }
  if (event.kind == ExitKind::kCrash) {
    // Members that are lost while the loss of another is being handled are one failure: a rack that
    // goes dark is no crash loop.
    const bool counted_already = record.state == State::kMember &&
                                 log_.phase == JobPhase::kRecovering &&
                                 rank_of(log_.decided_members, event.worker).has_value();
    if (!counted_already) count_failure(event.log_tail);
    publish("lost worker", event.worker, "the worker on {} ended unasked{}{}", record.info.node,
            event.log_tail.empty() ? "" : ": ", event.log_tail);
    if (is_terminal(log_.phase)) return;
  } else if (rests) {
    rest(event.worker, record);
  } else {
    publish("left", event.worker, "the worker on {} {}", record.info.node,
            event.kind == ExitKind::kDrained ? "has left as asked"
            : event.log_tail.empty()         ? "was stopped"
                                             : event.log_tail);
  }
  if (record.state == State::kMember && !left) {
    // A joiner that dies before the boundary disturbs nobody: those who train have not stopped for
    // it yet.
    const bool joiner =
        log_.phase == JobPhase::kBoundary && !rank_of(log_.decided_members, event.worker);
    open_generation(joiner ? Cause::kPlanned : Cause::kFailure,
                    joiner ? "a joining worker was lost" : "a worker was lost");
  } else {
    consider_decision();  // a loss may have waited for this one's report
  }
  consider_size();
}

/// A left-over worker has gone from its generation: it comes back beside the job.
void Turn::rest(WorkerId worker, const WorkerRecord& record) {
  if (record.draining || state_.drained_nodes.contains(record.info.node)) {
    publish("left", worker, "the worker on {} has left as asked", record.info.node);
    act(StopWorker{worker, "it was asked to leave"});
    return;
  }
  publish("rests", worker, "the worker on {} stays beside the job, until there is a place for it",
          record.info.node);
  state_.starting.push_back(now_ + state_.options.start_timeout);
  wake_at(state_.starting.front());
}

void Turn::handle(const StartFailed& event) {
  if (is_terminal(log_.phase)) return;
  const size_t count =
      std::min(state_.starting.size(), static_cast<size_t>(std::max(0, event.count)));
  state_.starting.erase(state_.starting.begin(),
                        state_.starting.begin() + static_cast<std::ptrdiff_t>(count));
  if (event.fatal) return end_job(JobPhase::kFailed, event.why);
  count_failure(event.why);
  if (!is_terminal(log_.phase)) consider_size();
}

void Turn::handle(const WorkersSuspected& event) {
  if (is_terminal(log_.phase)) return;
  bool lost_member = false;
  for (WorkerId worker : event.workers) {
    if (is_member(worker)) {
      lost_member = true;
      publish("lost worker", worker, "fenced: {}", event.why);
      fence(worker);
    } else if (state_.workers.contains(worker) && state_.workers[worker].state == State::kReady) {
      act(StopWorker{worker, event.why});
      forget(worker);
    }
  }
  if (!lost_member) return;
  count_failure(event.why);
  if (is_terminal(log_.phase)) return;
  open_generation(Cause::kFailure, event.why);
  consider_size();
}

void Turn::handle(const Stalled& event) {
  if (log_.phase != JobPhase::kTraining && log_.phase != JobPhase::kBoundary) return;
  open_generation(Cause::kFailure, event.why);
}

void Turn::handle(const ReportReceived& event) {
  const Report& report = event.report;
  if (is_terminal(log_.phase) || log_.decision || report.generation != log_.membership.generation)
    return;
  if (!state_.workers.contains(report.worker)) return;
  state_.reports.try_emplace(
      report.worker, report);  // frozen: a second one of the same generation says nothing new
  consider_decision();
}

void Turn::handle(const StepCommitted& event) {
  if (event.step <= state_.committed) return;
  state_.committed = event.step;
  state_.failures_without_progress = 0;
}

void Turn::handle(const WorkerFinished& event) {
  if (!is_member(event.worker) || is_terminal(log_.phase)) return;
  state_.workers[event.worker].finished = true;
  state_.stopped_early = event.stopped;
  finish_if_all_have();
}

void Turn::finish_if_all_have() {
  if (!log_.decision) return;
  for (const Member& member : log_.membership.members) {
    if (member.role != Role::kTraining) continue;
    const auto it = state_.workers.find(member.worker.id);
    if (it == state_.workers.end() || !it->second.finished) return;
  }
  if (state_.stopped_early) {
    end_job(JobPhase::kStopped, "stopped on request");
  } else {
    end_job(JobPhase::kFinished, "all steps are done");
  }
}

void Turn::handle(const ScaleRequested& event) {
  if (is_terminal(log_.phase)) return;
  if (const std::string why = why_not_size(state_.options, event.workers); !why.empty()) {
    publish("refused", std::nullopt, "{}", why);
    return;
  }
  const int size = event.workers;
  if (size == log_.requested) return;
  log_.requested = size;
  log_.proven = std::min(log_.proven, size);
  state_.explicit_request = true;
  persist();
  publish("size", std::nullopt, "{} workers were asked for", size);
  consider_size();
}

void Turn::handle(const DrainRequested& event) {
  if (is_terminal(log_.phase)) return;
  if (!event.node.empty()) state_.drained_nodes[event.node] = event.deadline;
  int leaving = 0;
  for (auto& [id, record] : state_.workers) {
    if (event.node.empty() ? id != event.worker : record.info.node != event.node) continue;
    ++leaving;
    record.draining = true;
    record.drain_deadline = event.deadline;
  }
  if (event.node.empty()) {
    publish("drain", event.worker, "a worker was asked to leave");
  } else {
    publish("drain", event.worker, "node {} was asked to be left by its {} workers", event.node,
            leaving);
  }
  consider_size();
}

void Turn::handle(const UndrainRequested& event) {
  state_.drained_nodes.erase(event.node);
  for (auto& [id, record] : state_.workers) {
    if (record.info.node == event.node && record.state == State::kReady) record.draining = false;
  }
  consider_size();
}

void Turn::handle(const CheckpointPublished& event) {
  if (is_terminal(log_.phase) || event.state.step <= log_.checkpoint.step) return;
  log_.checkpoint = event.state;
  persist();
}

void Turn::handle(const StopRequested& event) {
  if (!is_terminal(log_.phase)) end_job(JobPhase::kStopped, event.why);
}

void Turn::handle(const PersistRefused&) {
  log_.phase = JobPhase::kSuperseded;
  log_.reason = "another operator has taken over";
}

void Turn::handle(const Tick&) {
  state_.wake_at.reset();
  if (is_terminal(log_.phase)) return;
  check_deadlines();
  if (is_terminal(log_.phase)) return;
  consider_decision();
  consider_size();
}

void Turn::check_deadlines() {
  const MembershipOptions& options = state_.options;
  const auto late = std::partition_point(state_.starting.begin(), state_.starting.end(),
                                         [&](Instant at) { return at <= now_; });
  if (late != state_.starting.begin()) {
    handle(StartFailed{static_cast<int>(late - state_.starting.begin()),
                       "not ready within start_timeout"});
    if (is_terminal(log_.phase)) return;
  }
  if (!state_.starting.empty()) wake_at(state_.starting.front());

  if (log_.phase == JobPhase::kRecovering && !log_.decision) {
    std::vector<WorkerId> silent;
    for (WorkerId id : member_ids()) {
      if (!state_.reports.contains(id)) silent.push_back(id);
    }
    if (!silent.empty()) {
      if (now_ >= *state_.opened_at + options.report_timeout) {
        handle(WorkersSuspected{silent, "no report within report_timeout"});
      } else {
        wake_at(*state_.opened_at + options.report_timeout);
      }
    }
  }
  if (log_.phase == JobPhase::kBoundary) {
    if (now_ >= *state_.opened_at + options.boundary_timeout) {
      open_generation(Cause::kFailure,
                      "a planned change found no step boundary within boundary_timeout");
    } else {
      wake_at(*state_.opened_at + options.boundary_timeout);
    }
  }
  if (log_.phase == JobPhase::kTraining) {
    for (const Member& member : log_.membership.members) {
      if (member.role == Role::kTraining || !is_member(member.worker.id)) continue;
      if (now_ >= *state_.decided_at + options.drain_timeout) {
        act(StopWorker{member.worker.id, "did not leave within drain_timeout"});
      } else {
        wake_at(*state_.decided_at + options.drain_timeout);
      }
    }
  }
}

void Turn::forget(WorkerId worker) {
  state_.workers.erase(worker);
  state_.reports.erase(worker);
}

void Turn::fence(WorkerId worker) {
  WorkerRecord& record = state_.workers[worker];
  record.state = State::kFenced;
  record.since = now_;
  state_.reports.erase(worker);
}

void Turn::count_failure(const std::string& text) {
  const ElasticPolicy& elastic = state_.options.elastic;
  const bool forgotten =
      !state_.last_failure || now_ - *state_.last_failure >= elastic.failure_memory;
  state_.failures = forgotten ? 1 : state_.failures + 1;
  state_.last_failure = now_;
  state_.last_failure_text = text;
  ++state_.failures_without_progress;
  if (elastic.failures_without_progress > 0 &&
      state_.failures_without_progress >= elastic.failures_without_progress) {
    end_job(JobPhase::kFailed,
            fmt::format("{} failures without a finished step; the last one: {}",
                        state_.failures_without_progress, text.empty() ? "no log" : text));
    return;
  }
  const Duration wait = failure_backoff(elastic, state_.failures);
  if (wait.count() > 0) {
    publish("backoff", std::nullopt,
            "{} failures in a row: the next replacement waits {} ms; the last one: {}",
            state_.failures, wait.count(), text.empty() ? "no log" : text);
  }
}

bool Turn::is_admissible(const WorkerRecord& record) const {
  return record.state == State::kReady && !record.draining &&
         !state_.drained_nodes.contains(record.info.node);
}

void Turn::end_job(JobPhase phase, std::string reason) {
  log_.phase = phase;
  log_.reason = std::move(reason);
  persist();
  publish("end", std::nullopt, "{}", log_.reason);
  for (const auto& [id, record] : state_.workers) act(StopWorker{id, log_.reason});
  act(EndJob{phase, log_.reason});
}

}  // namespace craton::cluster
