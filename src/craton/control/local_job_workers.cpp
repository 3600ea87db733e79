#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "craton/base/error.h"
#include "craton/control/local_job.h"
#include "craton/control/worker_list.h"
#include "craton/runtime/socket.h"

namespace craton::control {
namespace {

using std::chrono::steady_clock;

/// So many workers that fail with the same words, and no finished step between them, end the job.
constexpr int kSameFailures = 3;

/// This host. For tests of what happens to nodes, CRATON_NODES=N lets workers act as if they ran on
/// N of them, in turn.
std::string pick_node(int number, const std::vector<std::string>& avoid) {
  char host[256] = "localhost";
  ::gethostname(host, sizeof(host) - 1);
  const char* count = std::getenv("CRATON_NODES");
  const int nodes = count != nullptr ? std::max(1, std::atoi(count)) : 1;
  if (nodes == 1) return host;
  for (int k = 0; k < nodes; ++k) {
    std::string node = fmt::format("node-{}", (number + k) % nodes);
    if (std::find(avoid.begin(), avoid.end(), node) == avoid.end()) return node;
  }
  return fmt::format("node-{}", number % nodes);
}

cluster::ProgressWord read_word(const runtime::ProgressPage& page) {
  cluster::ProgressWord word;
  const uint32_t phase = page.phase.load(std::memory_order_relaxed);
  if (phase <= static_cast<uint32_t>(cluster::StepPhase::kFenced))
    word.phase = static_cast<cluster::StepPhase>(phase);
  word.step = Step(page.step.load(std::memory_order_relaxed));
  word.operation = page.operation.load(std::memory_order_relaxed);
  word.waiting = page.waiting.load(std::memory_order_relaxed) > 0;
  return word;
}

}  // namespace

void LocalJob::listen_for_workers() {
  const std::string name = fmt::format("craton-operator-{}-{}", ::getpid(),
                                       steady_clock::now().time_since_epoch().count());
  listener_ = runtime::listen_local(name);
  runtime::write_file_atomically(recipe_.run_folder + "/operator.workers", name);
}

void LocalJob::start_worker(const std::vector<std::string>& avoid_nodes) {
  auto worker = std::make_unique<Worker>();
  worker->number = started_++;
  worker->node = pick_node(worker->number, avoid_nodes);
  WorkerStart start;
  start.number = worker->number;
  start.program = options_.worker_program;
  start.recipe_path = options_.recipe_path;
  start.log_path = fmt::format("{}/worker-{}.log", recipe_.run_folder, worker->number);
  start.environment = {"CRATON_NODE=" + worker->node};
  // Faults are for the workers that a job begins with, and for the first other one: more that
  // failed in the same way would tell nothing new.
  const int64_t joiner = worker->number - recipe_.parallel.workers;
  const char* armed = std::getenv(joiner < 0 ? "CRATON_FAULTS" : "CRATON_JOINER_FAULTS");
  if (armed != nullptr && joiner <= 0)
    start.environment.push_back(fmt::format("CRATON_FAULTS={}", armed));
  worker->process = std::make_unique<WorkerProcess>(recipe_, start);
  worker->progress_since = now();
  workers_.push_back(std::move(worker));
}

void LocalJob::remember_workers() const {
  std::vector<ListedWorker> list;
  for (const auto& worker : workers_) {
    list.push_back({worker->number, worker->process->pid(),
                    worker->hello ? worker->hello->worker.id : cluster::WorkerId(0)});
  }
  write_worker_list(recipe_.run_folder, list);
}

void LocalJob::expect_workers_of_before() {
  for (const ListedWorker& worker : live_workers(recipe_.run_folder)) {
    started_ = std::max(started_, worker.number + 1);
    if (worker.id.value() != 0) expected_[worker.pid] = worker.id;
  }
  expected_until_ = now() + state_.options.lease;
}

void LocalJob::accept_worker() {
  auto channel = runtime::MessageChannel::accept(listener_.get());
  if (!channel) return;
  std::optional<protocol::Hello> hello;
  auto worker = std::make_unique<Worker>();
  try {
    // A worker says hello with the call; whoever does not is none.
    const auto bytes = channel->receive(std::chrono::milliseconds(1000));
    if (!bytes) return;
    const protocol::Message message = protocol::decode(*bytes);
    if (!std::holds_alternative<protocol::Hello>(message)) return;
    hello = std::get<protocol::Hello>(message);
    if (hello->pid != channel->peer_pid()) return;
    worker->process = std::make_unique<WorkerProcess>(
        static_cast<pid_t>(hello->pid), hello->progress_fd,
        fmt::format("{}/worker-{}.log", recipe_.run_folder, hello->number), std::move(channel));
  } catch (const Error&) {
    return;  // gone again, or no worker
  }
  worker->number = hello->number;
  worker->node = hello->worker.node;
  worker->progress_since = now();
  started_ = std::max(started_, worker->number + 1);
  expected_.erase(static_cast<pid_t>(hello->pid));
  Worker& taken = *workers_.emplace_back(std::move(worker));
  handle_hello(taken, *hello);
  read_messages(taken);  // what came with the hello is read already, and wakes nobody
}

void LocalJob::drop_those_who_did_not_come() {
  if (!expected_until_) return;
  // What the log calls members and nobody has seen since.
  const bool late = now() >= *expected_until_;
  std::vector<cluster::WorkerId> gone;
  for (const auto& [id, record] : state_.workers) {
    if (find(id) != nullptr) continue;
    const auto expected = std::find_if(expected_.begin(), expected_.end(),
                                       [&](const auto& entry) { return entry.second == id; });
    if (expected != expected_.end()) {
      if (!late && ::kill(expected->first, 0) == 0) continue;
      ::kill(expected->first, SIGKILL);
      expected_.erase(expected);
    }
    gone.push_back(id);
  }
  for (cluster::WorkerId id : gone)
    event(cluster::WorkerExited{id, cluster::ExitKind::kStopped, "lost with its operator"});
  if (expected_.empty() || late) expected_until_.reset();
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

void LocalJob::read_messages(Worker& worker) {
  try {
    while (const auto bytes = worker.process->channel().receive(std::chrono::milliseconds(0)))
      handle(worker, protocol::decode(*bytes));
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kPeerLost) throw;
  }
}

void LocalJob::handle(Worker& worker, const protocol::Message& message) {
  if (const auto* hello = std::get_if<protocol::Hello>(&message)) {
    handle_hello(worker, *hello);
  } else if (const auto* report = std::get_if<cluster::Report>(&message)) {
    event(cluster::ReportReceived{*report});
  } else if (const auto* step = std::get_if<protocol::StepDone>(&message)) {
    handle_step(*step);
  } else if (const auto* part = std::get_if<protocol::CheckpointPart>(&message)) {
    handle_part(*part);
  } else if (const auto* done = std::get_if<protocol::Done>(&message)) {
    if (!worker.hello) return;  // it begins anew, and this was said before
    if (done_ && done_->step == done->step && done_->state_sha256 != done->state_sha256) {
      fail(ErrorCode::kInternal,
           "workers ended with different states; this is a fault of craton, please report it with "
           "{}",
           recipe_.run_folder);
    }
    worker.done = done_ = *done;
    event(cluster::WorkerFinished{worker.hello->worker.id, done->stopped});
  } else if (std::holds_alternative<protocol::Left>(message)) {
    worker.left = true;
  } else if (const auto* leaving = std::get_if<protocol::Leaving>(&message)) {
    // When the whole job was told to go, each worker was told as well.
    if (!worker.hello || stopping_ || options_.stop_requested()) return;
    event(cluster::DrainRequested{"", worker.hello->worker.id,
                                  now() + cluster::Duration(leaving->grace_milliseconds)});
  } else if (const auto* failed = std::get_if<protocol::Failed>(&message)) {
    handle_failed(worker, *failed);
  }
}

void LocalJob::handle_hello(Worker& worker, const protocol::Hello& hello) {
  worker.hello = hello;
  if (!std::exchange(introduced_, true))
    journal_.on_start(hello, static_cast<int>(recipe_.parallel.workers));
  event(cluster::WorkerReady{hello.worker, Generation(hello.generation)});
  remember_workers();
  if (hello.generation == 0 || !state_.workers.contains(hello.worker.id)) return;
  // A member that an earlier operator has left: it may have missed that one's last word.
  tell(hello.worker.id, state_.log.membership);
  if (state_.log.decision) tell(hello.worker.id, *state_.log.decision);
}

void LocalJob::handle_step(const protocol::StepDone& step) {
  if (step.step <= journal_.last_step()) return;
  same_failures_.clear();
  const auto committed = steady_clock::now();
  if (last_generation_ != 0 && step.generation != last_generation_) {
    const double gap = std::chrono::duration<double>(committed - last_commit_).count();
    journal_.add_downtime(std::max(0.0, gap - step.seconds));
  }
  last_commit_ = committed;
  if (step.generation != last_generation_) record_resumption(step);
  last_generation_ = step.generation;
  loss_ = step.loss;
  seconds_per_step_ =
      seconds_per_step_ == 0 ? step.seconds : 0.8 * seconds_per_step_ + 0.2 * step.seconds;
  journal_.on_step(step, training_workers());
  record_batch(step);
  event(cluster::StepCommitted{Step(step.step)});
}

/// Where the batch follows the size: that it has.
void LocalJob::record_batch(const protocol::StepDone& step) {
  learning_rate_ = step.learning_rate;
  const int64_t before = std::exchange(batch_, step.batch);
  if (before == 0 || before == batch_) return;
  record({"batch", Generation(step.generation), std::nullopt,
          fmt::format("step {} is the first of {} samples instead of {}, with learning rate {:.2e}",
                      step.step, batch_, before, learning_rate_)});
}

void LocalJob::handle_part(const protocol::CheckpointPart& part) {
  // A worker says its newest ones again to an agent that takes over.
  const auto same = [&](const protocol::CheckpointPart& p) {
    return p.step == part.step && p.generation == part.generation;
  };
  const bool known = std::any_of(parts_.begin(), parts_.end(),
                                 [&](const auto& p) { return same(p) && p.rank == part.rank; });
  if (known || Step(part.step) <= state_.log.checkpoint.step) return;
  parts_.push_back(part);
  std::vector<protocol::CheckpointPart> complete;
  std::copy_if(parts_.begin(), parts_.end(), std::back_inserter(complete), same);
  if (static_cast<int32_t>(complete.size()) < part.world_size) return;
  std::erase_if(parts_, [&](const protocol::CheckpointPart& p) { return p.step <= part.step; });
  journal_.on_checkpoint(complete);
  event(cluster::CheckpointPublished{
      {Step(part.step), part.samples_seen / recipe_.train.micro_batch}});
}

void LocalJob::handle_failed(Worker& worker, const protocol::Failed& failed) {
  worker.failure = in_users_words(failed.message);
  // While no worker has ever come up it is the job that is wrong, not the worker.
  worker.fatal = failed.ends_job || !introduced_;
  if (!worker.fatal && ++same_failures_[worker.failure] >= kSameFailures) {
    worker.fatal = true;
    worker.failure = fmt::format("{} workers failed in the same way without a finished step: {}",
                                 kSameFailures, worker.failure);
  }
}

/// Workers read the resolved recipe; the user wrote another file, and knows that one's lines.
std::string LocalJob::in_users_words(const std::string& message) const {
  const std::string prefix = options_.recipe_path + ":";
  if (!message.starts_with(prefix)) return message;
  const size_t line_end = message.find(": ", prefix.size());
  const size_t key_end =
      line_end == std::string::npos ? line_end : message.find(": ", line_end + 2);
  if (key_end == std::string::npos) return message;
  std::string key = message.substr(line_end + 2, key_end - line_end - 2);
  const std::string why = message.substr(key_end + 2);
  if (key.find('[') != std::string::npos) return fmt::format("{}: {}", key, why);
  recipe::Settings place = recipe_.settings;
  for (size_t dot; (dot = key.find('.')) != std::string::npos; key.erase(0, dot + 1))
    place = place.section(key.substr(0, dot));
  try {
    place.reject(key, why);
  } catch (const Error& e) {
    return e.what();
  }
}

void LocalJob::handle_exit(Worker& worker) {
  const std::string how = worker.process->reap();
  const std::string words = !worker.failure.empty() ? worker.failure : worker.process->last_lines();
  const std::string tail =
      fmt::format("worker {} {}{}{}", worker.number, how, words.empty() ? "" : ": ", words);
  if (!worker.hello) {
    const bool fatal = worker.fatal || !introduced_;
    event(cluster::StartFailed{1, fatal && !worker.failure.empty() ? worker.failure : tail, fatal});
    return;
  }
  if (worker.fatal) {
    event(
        cluster::WorkerExited{worker.hello->worker.id, cluster::ExitKind::kFatal, worker.failure});
    return;
  }
  const auto kind = worker.stopped ? cluster::ExitKind::kStopped
                    : worker.left  ? cluster::ExitKind::kDrained
                                   : cluster::ExitKind::kCrash;
  event(cluster::WorkerExited{worker.hello->worker.id, kind, tail});
}

void LocalJob::watch_progress() {
  constexpr cluster::Duration kInterval{50};
  constexpr cluster::Duration kAsleep{1000};
  const cluster::Instant time = now();
  if (time - looked_at_ < kInterval) return;
  // An agent that did not run itself has no reason to think that others stood still.
  const bool slept = time - looked_at_ > kAsleep;
  looked_at_ = time;
  std::vector<cluster::WorkerObservation> members;
  for (const auto& worker : workers_) {
    const runtime::ProgressPage* page = worker->process->progress();
    if (page == nullptr || !worker->hello) continue;
    const uint64_t changes = page->changes.load(std::memory_order_relaxed);
    if (changes != std::exchange(worker->changes, changes) || slept) worker->progress_since = time;
    worker->progress = read_word(*page);
    const auto rank = cluster::rank_of(state_.log.membership.members, worker->hello->worker.id);
    if (!rank) continue;
    members.push_back(
        {worker->hello->worker.id, worker->node, time, worker->progress, worker->progress_since});
  }
  const bool trains = state_.log.phase == cluster::JobPhase::kTraining ||
                      state_.log.phase == cluster::JobPhase::kBoundary;
  if (!trains || members.size() < state_.log.membership.members.size()) return;
  cluster::FailureDetectorOptions options;
  // A model whose steps are long by nature does not hang.
  const double hang = std::max(recipe_.recovery.hang_seconds, 5 * seconds_per_step_);
  options.hang_timeout = cluster::Duration(static_cast<int64_t>(hang * 1000));
  const cluster::Suspicion suspicion = cluster::find_suspects(options, members, time);
  if (suspicion.stalled) {
    event(cluster::Stalled{suspicion.reason});
  } else if (!suspicion.workers.empty()) {
    event(cluster::WorkersSuspected{suspicion.workers, suspicion.reason});
  }
}

}  // namespace craton::control
