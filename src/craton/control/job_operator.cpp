#include "craton/control/job_operator.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "craton/base/error.h"
#include "craton/base/fault_point.h"
#include "craton/control/job_folder.h"
#include "craton/results/result.h"
#include "craton/runtime/file.h"

namespace craton::control {
namespace {

using std::chrono::steady_clock;

cluster::Duration duration(double seconds) {
  return cluster::Duration(static_cast<int64_t>(seconds * 1000));
}

}  // namespace

cluster::MembershipOptions membership_options(const recipe::Recipe& recipe) {
  const recipe::ParallelRecipe& parallel = recipe.parallel;
  const recipe::ElasticRecipe& elastic = recipe.elastic;
  const recipe::RecoveryRecipe& recovery = recipe.recovery;
  cluster::MembershipOptions options;
  options.shape.shards = static_cast<int>(parallel.shards);
  options.shape.micro_batches = static_cast<int>(recipe.units());
  options.shape.backups = static_cast<int>(parallel.backups);
  options.shape.replicate_all = parallel.strategy == "ddp";
  if (elastic.scales_batch) options.shape.reference = static_cast<int>(elastic.reference_workers);
  options.shape.shard_group = static_cast<int>(parallel.shard_group);
  options.start_workers = static_cast<int>(parallel.workers);
  options.spares = static_cast<int>(parallel.spares);
  options.elastic.min_workers = static_cast<int>(parallel.min_workers);
  options.elastic.max_workers = static_cast<int>(std::max(parallel.max_workers, parallel.workers));
  options.elastic.increment = static_cast<int>(elastic.increment);
  options.elastic.sizes.assign(elastic.sizes.begin(), elastic.sizes.end());
  options.elastic.stable_period = duration(elastic.stable_seconds);
  options.elastic.snooze = duration(elastic.snooze_seconds);
  options.elastic.wait_for_spare = duration(elastic.spare_wait_seconds);
  options.elastic.failure_backoff = duration(elastic.backoff_seconds);
  options.elastic.failure_backoff_max = duration(elastic.backoff_limit_seconds);
  options.elastic.failures_without_progress = static_cast<int>(elastic.failures_without_progress);
  options.start_timeout = duration(recovery.start_seconds);
  options.report_timeout = duration(recovery.report_seconds);
  options.drain_timeout = duration(recovery.drain_seconds);
  options.lease = duration(recovery.lease_seconds);
  options.keep_processes = recovery.in_process;
  options.keep_connections = recovery.communicator;
  options.peer_state = recovery.peer_state;
  return options;
}

JobOperator::JobOperator(const recipe::Recipe& recipe, JobOperatorOptions options,
                         RunJournal& journal)
    : recipe_(recipe), options_(std::move(options)), journal_(journal) {
  state_.options = membership_options(recipe_);
}

JobOperator::~JobOperator() = default;

cluster::Instant JobOperator::now() const {
  return std::chrono::duration_cast<cluster::Instant>(steady_clock::now().time_since_epoch());
}

void JobOperator::event(decltype(cluster::Event::what) what) {
  event_at_ = steady_clock::now();
  carry_out(cluster::decide(state_, {now(), std::move(what)}));
}

void JobOperator::carry_out(const std::vector<cluster::Action>& actions) {
  for (const cluster::Action& action : actions) {
    if (const auto* persisted = std::get_if<cluster::Persist>(&action)) {
      CRATON_FAULT_POINT("operator.before_persist");
      if (!persist(persisted->record)) {
        event(cluster::PersistRefused{});
        return;
      }
      CRATON_FAULT_POINT("operator.after_persist");
    } else if (const auto* announced = std::get_if<cluster::Announce>(&action)) {
      begin_interruption(announced->membership);
      for (cluster::WorkerId id : announced->to) tell(id, announced->membership);
    } else if (const auto* decided = std::get_if<cluster::SendDecision>(&action)) {
      if (decided->decision.lost_steps > 0) note_lost_steps(decided->decision);
      interruptions_[decided->decision.generation.value()].decided = steady_clock::now();
      for (cluster::WorkerId id : decided->to) tell(id, decided->decision);
    } else if (const auto* wanted = std::get_if<cluster::StartWorkers>(&action)) {
      for (int k = 0; k < wanted->count; ++k) start_worker(wanted->avoid_nodes);
    } else if (const auto* stopped = std::get_if<cluster::StopWorker>(&action)) {
      if (Worker* worker = find(stopped->worker)) {
        worker->stopped = true;
        command(*worker, protocol::KillWorker{worker->number});
      }
    } else if (const auto* restarted = std::get_if<cluster::RestartWorker>(&action)) {
      if (Worker* worker = find(restarted->worker)) {
        tell(restarted->worker, protocol::BeginAnew{});
        worker->hello.reset();  // it introduces itself as another one
        worker->done.reset();
      }
    } else if (const auto* published = std::get_if<cluster::PublishEvent>(&action)) {
      record(*published);
    } else if (const auto* wake = std::get_if<cluster::WakeAt>(&action)) {
      wake_at_ = wake->at;
    } else if (const auto* end = std::get_if<cluster::EndJob>(&action)) {
      end_ = *end;
    }
  }
}

void JobOperator::note_lost_steps(const cluster::Decision& decision) {
  journal_.add_lost_steps(decision.lost_steps);
  if (!recipe_.elastic.scales_batch) return;  // they will have the same figures
  const bool restores = decision.kind == cluster::DecisionKind::kRestore;
  journal_.go_back(decision.step.value() - (restores ? 0 : 1), decision.generation.value());
}

bool JobOperator::persist(const cluster::LogRecord& record) {
  const auto on_disk = read_operator_log(recipe_.run_folder);
  if ((on_disk ? on_disk->sequence : 0) != record.sequence - 1) return false;
  write_operator_log(recipe_.run_folder, record);
  return true;
}

int JobOperator::training_workers() const {
  return cluster::training_members(state_.log.membership.members);
}

void JobOperator::record(const cluster::PublishEvent& event) {
  nlohmann::ordered_json line = {{"elapsed_seconds", journal_.elapsed()},
                                 {"kind", event.kind},
                                 {"generation", event.generation.value()},
                                 {"step", journal_.last_step()},
                                 {"time", results::utc_now()}};
  if (event.worker) {
    line["worker"] = event.worker->value();
    if (const Worker* worker = find(*event.worker)) {
      line["number"] = worker->number;
      line["pid"] = worker->pid;
    }
  }
  line["text"] = event.text;
  if (event.kind == "lost worker" && event.worker && lost_.insert(*event.worker).second)
    journal_.add_failure();
  runtime::append_line(recipe_.run_folder + "/events.jsonl", line.dump());
  using Kind = results::RunEvent::Kind;
  static const std::map<std::string, Kind> kShown = {
      {"lost worker", Kind::kFailed}, {"admitted", Kind::kJoined}, {"size", Kind::kResized},
      {"decision", Kind::kResumed},   {"left", Kind::kLeft},       {"loss", Kind::kRestored},
      {"backoff", Kind::kFailed},     {"refused", Kind::kFailed},  {"restart", Kind::kRestored},
      {"drain", Kind::kLeft},         {"rests", Kind::kLeft},      {"batch", Kind::kResized}};
  const auto shown = kShown.find(event.kind);
  const bool first = last_generation_ == 0;  // the job starts: no change yet
  if (event.kind == "decision" && first) return;
  if (shown != kShown.end() && journal_.last_step() < recipe_.train.steps) {
    journal_.on_event(shown->second, journal_.last_step(), training_workers(), event.text,
                      event.kind != "decision" && (event.kind != "admitted" || !first));
  }
}

/// A loss that comes while an earlier one is being handled belongs to that one.
void JobOperator::begin_interruption(const cluster::Membership& membership) {
  const auto last = interruptions_.rbegin();
  const bool goes_on = last != interruptions_.rend() && !last->second.planned;
  const auto noticed = goes_on ? last->second.noticed : event_at_;
  interruptions_[membership.generation.value()] = {
      noticed, steady_clock::now(), {}, membership.planned};
}

/// The first commit of a generation: how long each phase of the change took.
void JobOperator::record_resumption(const protocol::StepDone& step) {
  const auto between = [](steady_clock::time_point from, steady_clock::time_point to) {
    return std::max(0.0, std::chrono::duration<double>(to - from).count());
  };
  const Interruption interruption = interruptions_[step.generation];
  interruptions_.erase(interruptions_.begin(), interruptions_.upper_bound(step.generation));
  const double persist = between(interruption.noticed, interruption.announced);
  const double reports = between(interruption.announced, interruption.decided);
  const double commit = between(interruption.decided, last_commit_);
  const nlohmann::ordered_json line = {
      {"elapsed_seconds", journal_.elapsed()},
      {"kind", "resumed"},
      {"generation", step.generation},
      {"step", step.step},
      {"planned", interruption.planned},
      {"fence_seconds", persist},
      {"report_seconds", reports},
      {"commit_seconds", commit},
      {"step_seconds", step.seconds},
      {"text", fmt::format("step {} is the first of generation {}: {:.0f} ms to the fence, {:.0f} "
                           "ms until all had reported, {:.0f} ms to the commit, in which a step "
                           "takes {:.0f} ms",
                           step.step, step.generation, persist * 1e3, reports * 1e3, commit * 1e3,
                           step.seconds * 1e3)}};
  runtime::append_line(recipe_.run_folder + "/events.jsonl", line.dump());
}

void JobOperator::pass_on_stop() {
  if (options_.abandon_requested())
    fail(ErrorCode::kCancelled,
         "ended at once; {} goes on from its newest checkpoint with the same "
         "command",
         recipe_.name);
  if (!stopping_ && !options_.stop_requested()) return;
  stopping_ = true;
  if (last_generation_ == 0 && !introduced_)
    fail(ErrorCode::kCancelled, "stopped before the first step");
  for (const auto& worker : workers_) {
    if (worker->hello && !std::exchange(worker->told_to_stop, true))
      tell(worker->hello->worker.id, protocol::Stop{"asked to"});
  }
}

void JobOperator::wait_for_something() {
  std::vector<pollfd> entries;
  if (local_) entries.push_back({local_->fd(), POLLIN, 0});
  if (service_) entries.push_back({service_->fd(), POLLIN, 0});
  int timeout_ms = 50;
  if (wake_at_)
    timeout_ms = static_cast<int>(std::clamp<int64_t>((*wake_at_ - now()).count(), 0, timeout_ms));
  if (::poll(entries.data(), entries.size(), timeout_ms) < 0 && errno != EINTR)
    fail_errno("cannot wait for workers", errno);
  if (local_) local_->handle_ready();
  if (service_) service_->answer_waiting();
  listen_to_agents();
  start_waiting_workers();
  forget_those_who_are_nowhere();
  watch_progress();
  if (wake_at_ && now() >= *wake_at_) {
    wake_at_.reset();
    event(cluster::Tick{});
  }
}

/// The log goes on where an earlier operator of this folder has left it: generations and its
/// sequence never start again.
void JobOperator::begin() {
  const auto before = read_operator_log(recipe_.run_folder);
  if (options_.listen.empty()) {
    begin_local_agent();
  } else {
    open_service();
  }
  if (options_.take_over && before && !cluster::is_terminal(before->phase)) {
    expected_until_ = now() + state_.options.lease;
    if (!before->membership.members.empty())
      state_.options.fingerprint = before->membership.members.front().worker.fingerprint;
    event(cluster::OperatorStarted{before});
    event(cluster::StepCommitted{Step(journal_.last_step())});
    return;
  }
  std::filesystem::remove(recipe_.run_folder + "/events.jsonl");
  if (before) {
    state_.log.sequence = before->sequence;
    state_.log.membership.generation = before->membership.generation;
  }
  event(cluster::OperatorStarted{});
  if (options_.restore_step > 0) {
    event(cluster::CheckpointPublished{
        {Step(options_.restore_step), recipe_.units_of(options_.restore_samples)}});
  }
}

protocol::Done JobOperator::run() {
  begin();
  if (!service_) open_service();  // users can wait until the workers are on their way
  while (!end_) {
    pass_on_stop();
    wait_for_something();
  }
  end_agents();
  std::error_code error;
  for (const char* file : {"operator.json", "agent.socket", "workers.json"})
    std::filesystem::remove(std::filesystem::path(recipe_.run_folder) / file, error);
  if (end_->phase == cluster::JobPhase::kFailed)
    fail(ErrorCode::kInvalidArgument, "{}", end_->reason);
  if (!done_) fail(ErrorCode::kPeerLost, "the job has ended: {}", end_->reason);
  return *done_;
}

}  // namespace craton::control
