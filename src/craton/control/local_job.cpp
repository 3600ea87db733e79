#include "craton/control/local_job.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "craton/base/error.h"
#include "craton/base/fault_point.h"
#include "craton/base/log.h"
#include "craton/runtime/file.h"

namespace craton::control {
namespace {

using std::chrono::steady_clock;

cluster::MembershipOptions membership_options(const recipe::Recipe& recipe) {
  cluster::MembershipOptions options;
  options.shape.shards = static_cast<int>(recipe.parallel.shards);
  options.shape.micro_batches = static_cast<int>(recipe.train.micro_batches());
  options.shape.backups = static_cast<int>(recipe.parallel.backups);
  options.shape.replicate_all = recipe.parallel.strategy == "ddp";
  options.start_workers = static_cast<int>(recipe.parallel.workers);
  options.elastic.min_workers = static_cast<int>(recipe.parallel.min_workers);
  options.elastic.max_workers =
      static_cast<int>(std::max(recipe.parallel.max_workers, recipe.parallel.workers));
  return options;
}

}  // namespace

LocalJob::LocalJob(const recipe::Recipe& recipe, LocalJobOptions options, RunJournal& journal)
    : recipe_(recipe), options_(std::move(options)), journal_(journal) {
  state_.options = membership_options(recipe_);
}

LocalJob::~LocalJob() = default;

cluster::Instant LocalJob::now() const {
  return std::chrono::duration_cast<cluster::Instant>(steady_clock::now().time_since_epoch());
}

void LocalJob::event(decltype(cluster::Event::what) what) {
  carry_out(cluster::decide(state_, {now(), std::move(what)}));
}

void LocalJob::carry_out(const std::vector<cluster::Action>& actions) {
  for (const cluster::Action& action : actions) {
    if (const auto* persisted = std::get_if<cluster::Persist>(&action)) {
      CRATON_FAULT_POINT("operator.before_persist");
      if (!persist(persisted->record)) {
        event(cluster::PersistRefused{});
        return;
      }
      CRATON_FAULT_POINT("operator.after_persist");
    } else if (const auto* announced = std::get_if<cluster::Announce>(&action)) {
      for (cluster::WorkerId id : announced->to) tell(id, announced->membership);
    } else if (const auto* decided = std::get_if<cluster::SendDecision>(&action)) {
      if (decided->decision.lost_steps > 0) journal_.add_lost_steps(decided->decision.lost_steps);
      for (cluster::WorkerId id : decided->to) tell(id, decided->decision);
    } else if (const auto* wanted = std::get_if<cluster::StartWorkers>(&action)) {
      for (int k = 0; k < wanted->count; ++k) start_worker();
    } else if (const auto* stopped = std::get_if<cluster::StopWorker>(&action)) {
      if (Worker* worker = find(stopped->worker)) {
        worker->stopped = true;
        worker->process->kill();
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

bool LocalJob::persist(const cluster::LogRecord& record) {
  const std::string path = recipe_.run_folder + "/operator.log";
  uint64_t on_disk = 0;
  if (std::filesystem::exists(path))
    on_disk = protocol::decode_log(runtime::read_text(path)).sequence;
  if (on_disk != record.sequence - 1) return false;
  runtime::write_file_atomically(path, protocol::encode_log(record));
  return true;
}

void LocalJob::start_worker() {
  auto worker = std::make_unique<Worker>();
  worker->number = started_++;
  // Faults are for the workers that a job begins with: a replacement that failed in the same way
  // again would tell nothing new.
  std::vector<std::string> faults;
  // Its own faults are for the first one.
  const int64_t joiner = worker->number - recipe_.parallel.workers;
  const char* armed = std::getenv(joiner < 0 ? "CRATON_FAULTS" : "CRATON_JOINER_FAULTS");
  if (armed != nullptr && joiner <= 0) faults.push_back(fmt::format("CRATON_FAULTS={}", armed));
  worker->process = std::make_unique<WorkerProcess>(
      recipe_, options_.worker_program, options_.recipe_path,
      fmt::format("{}/worker-{}.log", recipe_.run_folder, worker->number), faults);
  workers_.push_back(std::move(worker));
}

LocalJob::Worker* LocalJob::find(cluster::WorkerId id) {
  for (const auto& worker : workers_) {
    if (worker->hello && worker->hello->worker.id == id) return worker.get();
  }
  return nullptr;
}

void LocalJob::tell(cluster::WorkerId id, const protocol::Message& message) {
  Worker* worker = find(id);
  if (worker == nullptr) return;
  try {
    worker->process->channel().send(protocol::encode(message));
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kPeerLost) throw;  // its end is seen through its pidfd
  }
}

int LocalJob::training_workers() const {
  return cluster::training_members(state_.log.membership.members);
}

void LocalJob::record(const cluster::PublishEvent& event) {
  nlohmann::json line = {{"elapsed_seconds", journal_.elapsed()},
                         {"kind", event.kind},
                         {"generation", event.generation.value()},
                         {"step", journal_.last_step()},
                         {"text", event.text}};
  if (event.worker) line["worker"] = event.worker->value();
  runtime::append_line(recipe_.run_folder + "/events.jsonl", line.dump());
  using Kind = results::RunEvent::Kind;
  static const std::map<std::string, Kind> kShown = {
      {"lost worker", Kind::kFailed}, {"admitted", Kind::kJoined}, {"size", Kind::kResized},
      {"decision", Kind::kResumed},   {"left", Kind::kLeft},       {"loss", Kind::kRestored},
      {"backoff", Kind::kFailed},     {"refused", Kind::kFailed}};
  const auto shown = kShown.find(event.kind);
  const bool first = last_generation_ == 0;  // the job starts: no change yet
  if (event.kind == "decision" && first) return;
  if (shown != kShown.end() && journal_.last_step() < recipe_.train.steps) {
    journal_.on_event(shown->second, journal_.last_step(), training_workers(), event.text,
                      event.kind != "decision" && (event.kind != "admitted" || !first));
  }
}

void LocalJob::handle(Worker& worker, const protocol::Message& message) {
  if (const auto* hello = std::get_if<protocol::Hello>(&message)) {
    worker.hello = *hello;
    if (!std::exchange(introduced_, true))
      journal_.on_start(*hello, static_cast<int>(recipe_.parallel.workers));
    event(cluster::WorkerReady{hello->worker, Generation(0)});
  } else if (const auto* report = std::get_if<cluster::Report>(&message)) {
    event(cluster::ReportReceived{*report});
  } else if (const auto* step = std::get_if<protocol::StepDone>(&message)) {
    handle_step(*step);
  } else if (const auto* part = std::get_if<protocol::CheckpointPart>(&message)) {
    handle_part(*part);
  } else if (const auto* done = std::get_if<protocol::Done>(&message)) {
    if (done_ && done_->state_sha256 != done->state_sha256) {
      fail(ErrorCode::kInternal,
           "workers ended with different states; this is a fault of craton, please report it with "
           "{}",
           recipe_.run_folder);
    }
    worker.done = done_ = *done;
    event(cluster::WorkerFinished{worker.hello->worker.id});
  } else if (std::holds_alternative<protocol::Left>(message)) {
    worker.left = true;
  } else if (const auto* failed = std::get_if<protocol::Failed>(&message)) {
    worker.failure = failed->message;
    // Before the first step it is the job that is wrong, not the worker.
    if (last_generation_ == 0) fail(ErrorCode::kInvalidArgument, "{}", failed->message);
  }
}

void LocalJob::handle_step(const protocol::StepDone& step) {
  if (step.step <= journal_.last_step()) return;
  const auto committed = steady_clock::now();
  if (last_generation_ != 0 && step.generation != last_generation_) {
    const double gap = std::chrono::duration<double>(committed - last_commit_).count();
    journal_.add_downtime(std::max(0.0, gap - step.seconds));
  }
  last_commit_ = committed;
  last_generation_ = step.generation;
  journal_.on_step(step, training_workers());
  event(cluster::StepCommitted{Step(step.step)});
}

void LocalJob::handle_part(const protocol::CheckpointPart& part) {
  parts_.push_back(part);
  std::vector<protocol::CheckpointPart> complete;
  const auto same = [&](const protocol::CheckpointPart& p) {
    return p.step == part.step && p.generation == part.generation;
  };
  std::copy_if(parts_.begin(), parts_.end(), std::back_inserter(complete), same);
  if (static_cast<int32_t>(complete.size()) < part.world_size) return;
  std::erase_if(parts_, [&](const protocol::CheckpointPart& p) { return p.step <= part.step; });
  journal_.on_checkpoint(complete);
  event(cluster::CheckpointPublished{Step(part.step)});
}

void LocalJob::handle_exit(Worker& worker) {
  const std::string how = worker.process->reap();
  const std::string words = !worker.failure.empty() ? worker.failure : worker.process->last_lines();
  const std::string tail =
      fmt::format("worker {} {}{}{}", worker.number, how, words.empty() ? "" : ": ", words);
  if (!worker.hello) {
    if (last_generation_ == 0) fail(ErrorCode::kPeerLost, "{}", tail);
    event(cluster::StartFailed{1, tail});
    return;
  }
  const auto kind = worker.stopped ? cluster::ExitKind::kStopped
                    : worker.left  ? cluster::ExitKind::kDrained
                                   : cluster::ExitKind::kCrash;
  event(cluster::WorkerExited{worker.hello->worker.id, kind, tail});
}

void LocalJob::pass_on_stop() {
  if (!options_.stop_requested()) return;
  if (last_generation_ == 0 && !introduced_)
    fail(ErrorCode::kCancelled, "stopped before the first step");
  for (const auto& worker : workers_) {
    if (worker->hello && !std::exchange(worker->told_to_stop, true))
      tell(worker->hello->worker.id, protocol::Stop{"asked to"});
  }
}

void LocalJob::read_messages(Worker& worker) {
  try {
    while (const auto bytes = worker.process->channel().receive(std::chrono::milliseconds(0)))
      handle(worker, protocol::decode(*bytes));
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kPeerLost) throw;
  }
}

void LocalJob::wait_for_something() {
  std::vector<pollfd> entries;
  for (const auto& worker : workers_) {
    entries.push_back({worker->process->channel().fd(), POLLIN, 0});
    entries.push_back({worker->process->process_fd(), POLLIN, 0});
  }
  int timeout_ms = 100;
  if (wake_at_)
    timeout_ms = static_cast<int>(std::clamp<int64_t>((*wake_at_ - now()).count(), 0, timeout_ms));
  if (::poll(entries.data(), entries.size(), timeout_ms) < 0 && errno != EINTR)
    fail_errno("cannot wait for workers", errno);
  const size_t count = entries.size() / 2;  // handling may start more
  std::vector<Worker*> ended;
  for (size_t k = 0; k < count; ++k) {
    const bool exited = (entries[2 * k + 1].revents & POLLIN) != 0;
    if (entries[2 * k].revents != 0 || exited) read_messages(*workers_[k]);
    if (exited) ended.push_back(workers_[k].get());
  }
  for (Worker* worker : ended) {
    handle_exit(*worker);
    std::erase_if(workers_, [&](const auto& w) { return w.get() == worker; });
  }
  if (wake_at_ && now() >= *wake_at_) {
    wake_at_.reset();
    event(cluster::Tick{});
  }
}

protocol::Done LocalJob::run() {
  std::filesystem::remove(recipe_.run_folder + "/operator.log");
  std::filesystem::remove(recipe_.run_folder + "/events.jsonl");
  event(cluster::OperatorStarted{});
  if (options_.restore_step > 0) event(cluster::CheckpointPublished{Step(options_.restore_step)});
  while (!end_) {
    pass_on_stop();
    wait_for_something();
  }
  workers_.clear();
  if (!done_) fail(ErrorCode::kPeerLost, "the job has ended: {}", end_->reason);
  return *done_;
}

}  // namespace craton::control
