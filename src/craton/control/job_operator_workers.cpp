#include <algorithm>

#include "craton/base/error.h"
#include "craton/control/job_operator.h"

namespace craton::control {
namespace {

using std::chrono::steady_clock;

/// So many workers that fail with the same words, and no finished step between them, end the job.
constexpr int kSameFailures = 3;

}  // namespace

JobOperator::Worker* JobOperator::find(cluster::WorkerId id) {
  for (const auto& worker : workers_) {
    if (worker->hello && worker->hello->worker.id == id) return worker.get();
  }
  return nullptr;
}

JobOperator::Worker* JobOperator::find(int number) {
  for (const auto& worker : workers_) {
    if (worker->number == number) return worker.get();
  }
  return nullptr;
}

void JobOperator::command(const Worker& worker, const protocol::AgentCommand& command) {
  const auto node = nodes_.find(worker.agent);
  // To an agent that is away it is said when its workers introduce themselves again.
  if (node != nodes_.end() && node->second.send) node->second.send(command);
}

void JobOperator::tell(cluster::WorkerId id, const protocol::Message& message) {
  if (const Worker* worker = find(id))
    command(*worker, protocol::TellWorker{worker->number, message});
}

void JobOperator::handle(Worker& worker, const protocol::Message& message) {
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
  } else if (const auto* left = std::get_if<protocol::Left>(&message)) {
    handle_left(worker, *left);
  } else if (const auto* leaving = std::get_if<protocol::Leaving>(&message)) {
    // When the whole job was told to go, each worker was told as well.
    if (!worker.hello || stopping_ || options_.stop_requested()) return;
    event(cluster::DrainRequested{"", worker.hello->worker.id,
                                  now() + cluster::Duration(leaving->grace_milliseconds)});
  } else if (const auto* failed = std::get_if<protocol::Failed>(&message)) {
    handle_failed(worker, *failed);
  }
}

void JobOperator::handle_hello(Worker& worker, const protocol::Hello& hello) {
  worker.hello = hello;
  worker.told_to_stop = false;  // an agent that is gone may not have passed it on
  if (!std::exchange(introduced_, true))
    journal_.on_start(hello, static_cast<int>(recipe_.parallel.workers));
  event(cluster::WorkerReady{hello.worker, Generation(hello.generation)});
  if (hello.generation == 0 || !state_.workers.contains(hello.worker.id)) return;
  // A member that an earlier operator has left: it may have missed that one's last word.
  tell(hello.worker.id, state_.log.membership);
  if (state_.log.decision) tell(hello.worker.id, *state_.log.decision);
}

void JobOperator::handle_left(Worker& worker, const protocol::Left& left) {
  worker.left = !left.rests;
  if (!left.rests || !worker.hello) return;
  event(cluster::WorkerExited{worker.hello->worker.id, cluster::ExitKind::kRests, ""});
  if (!worker.stopped) worker.hello.reset();  // it introduces itself as another one
}

void JobOperator::handle_step(const protocol::StepDone& step) {
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
void JobOperator::record_batch(const protocol::StepDone& step) {
  learning_rate_ = step.learning_rate;
  const int64_t before = std::exchange(batch_, step.batch);
  if (before == 0 || before == batch_) return;
  record({"batch", Generation(step.generation), std::nullopt,
          fmt::format("step {} is the first of {} samples instead of {}, with learning rate {:.2e}",
                      step.step, batch_, before, learning_rate_)});
}

void JobOperator::handle_part(const protocol::CheckpointPart& part) {
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
  event(cluster::CheckpointPublished{{Step(part.step), recipe_.units_of(part.samples_seen)}});
}

void JobOperator::handle_failed(Worker& worker, const protocol::Failed& failed) {
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
std::string JobOperator::in_users_words(const std::string& message) const {
  const size_t prefix_end = message.find("/recipe.yaml:");
  if (!message.starts_with(recipe_.run_folder) || prefix_end == std::string::npos) return message;
  const std::string prefix = message.substr(0, prefix_end + std::string("/recipe.yaml:").size());
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

void JobOperator::handle_end(int number, const std::string& how, const std::string& last_words) {
  const auto found = std::find_if(workers_.begin(), workers_.end(),
                                  [&](const auto& worker) { return worker->number == number; });
  if (found == workers_.end()) return;
  const std::unique_ptr<Worker> worker = std::move(*found);
  workers_.erase(found);
  const std::string words = !worker->failure.empty() ? worker->failure : last_words;
  const std::string tail =
      fmt::format("worker {} {}{}{}", number, how, words.empty() ? "" : ": ", words);
  if (!worker->hello && worker->before != cluster::WorkerId(0)) {
    event(cluster::WorkerExited{worker->before, cluster::ExitKind::kStopped,
                                "lost with its operator"});
    return;
  }
  if (!worker->hello) {
    const bool fatal = worker->fatal || !introduced_;
    event(
        cluster::StartFailed{1, fatal && !worker->failure.empty() ? worker->failure : tail, fatal});
    return;
  }
  const cluster::WorkerId id = worker->hello->worker.id;
  if (worker->fatal) {
    event(cluster::WorkerExited{id, cluster::ExitKind::kFatal, worker->failure});
    return;
  }
  const auto kind = worker->stopped ? cluster::ExitKind::kStopped
                    : worker->left  ? cluster::ExitKind::kDrained
                                    : cluster::ExitKind::kCrash;
  event(cluster::WorkerExited{id, kind, tail});
}

}  // namespace craton::control
