#include "craton/control/run_journal.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "craton/base/log.h"
#include "craton/base/units.h"
#include "craton/checkpoint/checkpoint.h"

namespace craton::control {
namespace fs = std::filesystem;

RunJournal::RunJournal(const recipe::Recipe& recipe, int64_t first_step)
    : recipe_(recipe),
      started_(results::utc_now()),
      start_(std::chrono::steady_clock::now()),
      last_step_(first_step),
      metrics_file_(recipe.run_folder + "/metrics.jsonl", first_step),
      events_file_(recipe.run_folder + "/tensorboard", first_step),
      progress_(STDOUT_FILENO, recipe.train.steps, recipe.train.log_every) {
  if (first_step > 0) {
    for (const auto& old : results::read_metrics(recipe.run_folder + "/metrics.jsonl")) {
      if (old.step <= first_step) metrics_.push_back(old);
    }
  }
  result_.name = recipe.name;
  result_.strategy = recipe.parallel.strategy;
  result_.recipe_digest = recipe.digest();
  result_.resumed_from_step = first_step;
  result_.started = started_;
}

double RunJournal::elapsed() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void RunJournal::on_start(const protocol::Hello& hello, int workers) {
  job_.steps = recipe_.train.steps;
  job_.tokens_per_sample = hello.tokens_per_sample;
  job_.training_flops_per_sample = hello.training_flops_per_sample;
  job_.peak_flops_per_worker = hello.peak_flops;
  result_.parameters = hello.parameters;
  result_.workers = workers;
  data_ = hello.data;
  progress_.note(
      fmt::format("{}: {} parameters, {} worker{}, {}, {} micro-batches of {} a step; {}",
                  recipe_.name, format_count(static_cast<double>(hello.parameters)), workers,
                  workers == 1 ? "" : "s", recipe_.parallel.strategy,
                  recipe_.micro_batches_with(workers), recipe_.train.micro_batch, hello.data));
  if (last_step_ > 0) progress_.note(fmt::format("goes on after step {}", last_step_));
  on_event(results::RunEvent::Kind::kStarted, last_step_, workers,
           last_step_ > 0 ? fmt::format("went on after step {}", last_step_) : "started", false);
}

void RunJournal::on_step(const protocol::StepDone& step, int workers) {
  if (step.step <= last_step_) return;
  last_step_ = step.step;
  results::StepMetrics metrics;
  metrics.step = step.step;
  metrics.generation = step.generation;
  metrics.workers = workers;
  metrics.loss = step.loss;
  metrics.validation_loss = step.validation_loss;
  metrics.gradient_norm = step.gradient_norm;
  metrics.learning_rate = step.learning_rate;
  metrics.batch = step.batch;
  metrics.samples_seen = step.samples_seen;
  metrics.applied = step.applied;
  if (!step.applied) ++result_.skipped_steps;
  metrics.skipped_steps = result_.skipped_steps;
  metrics.seconds = step.seconds;
  metrics.compute_seconds = step.compute_seconds;
  metrics.reduce_seconds = step.reduce_seconds;
  metrics.gather_seconds = step.gather_seconds;
  metrics.data_wait_seconds = step.data_wait_seconds;
  metrics.communication_seconds = step.communication_seconds;
  metrics.sent_bytes = step.sent_bytes;
  metrics.memory_bytes = step.resident_bytes;
  metrics.elapsed_seconds = elapsed();
  metrics.time =
      static_cast<double>(std::chrono::system_clock::now().time_since_epoch().count()) * 1e-9;
  results::derive_rates(metrics, job_);
  metrics_file_.append(metrics);
  events_file_.step(metrics);
  progress_.on_step(metrics);
  metrics_.push_back(metrics);
  result_.train_loss = metrics.loss;
  if (metrics.validation_loss) result_.validation_loss = metrics.validation_loss;
  result_.workers = workers;
  step_seconds_ += metrics.seconds;
  samples_ += metrics.batch;
  data_wait_seconds_ += metrics.data_wait_seconds;
  if (!step.applied) {
    on_event(
        results::RunEvent::Kind::kSkipped, step.step, 0,
        fmt::format("step {} was not finite (loss {}, gradient norm {}): skipped on all workers",
                    step.step, step.loss, step.gradient_norm),
        false);
  }
}

void RunJournal::go_back(int64_t step, uint64_t generation) {
  if (step >= last_step_ || metrics_.empty() || metrics_.back().generation >= generation) return;
  std::erase_if(metrics_, [&](const auto& m) { return m.step > step; });
  metrics_file_ = results::MetricsFile(recipe_.run_folder + "/metrics.jsonl", step);
  events_file_ = results::EventFile(recipe_.run_folder + "/tensorboard", step);
  last_step_ = step;
}

void RunJournal::on_checkpoint(const std::vector<protocol::CheckpointPart>& parts) {
  const protocol::CheckpointPart& first = parts.front();
  checkpoint::Manifest manifest;
  manifest.step = first.step;
  manifest.updates = first.updates;
  manifest.samples_seen = first.samples_seen;
  manifest.generation = first.generation;
  manifest.recipe_digest = recipe_.digest();
  for (const auto& parameter : first.parameters)
    manifest.parameters.push_back(
        {parameter.name, parameter.shape, parameter.dtype, parameter.trained});
  const fs::path root = recipe_.checkpoint.path;
  const fs::path folder = checkpoint::commit(
      root, checkpoint::staging_folder(root, first.step, first.generation), first.world_size,
      manifest, recipe_.settings.dump(), recipe_.checkpoint.keep);
  on_event(results::RunEvent::Kind::kCheckpoint, first.step, 0,
           fmt::format("saved {}", folder.string()));
}

void RunJournal::on_event(results::RunEvent::Kind kind, int64_t step, int workers,
                          const std::string& text, bool show) {
  events_.push_back({kind, elapsed(), step, workers, text});
  if (show) progress_.note(text);
}

results::Result RunJournal::finish(const protocol::Done& done) {
  progress_.finish();
  result_.steps = done.step;
  result_.state_sha256 = done.state_sha256;
  result_.stopped = done.stopped;
  result_.finished = results::utc_now();
  result_.seconds = elapsed();
  result_.training_seconds = step_seconds_;
  const auto steps = static_cast<double>(done.step - result_.resumed_from_step);
  if (step_seconds_ > 0) {
    result_.samples_per_second = static_cast<double>(samples_) / step_seconds_;
    result_.data_wait_share = data_wait_seconds_ / step_seconds_;
  }
  const double busy = step_seconds_ + result_.downtime_seconds;
  result_.goodput = busy > 0 ? step_seconds_ / busy : 1;
  if (steps == 0 && !metrics_.empty()) {
    result_.train_loss = metrics_.back().loss;
    for (const auto& old : metrics_) {
      if (old.validation_loss) result_.validation_loss = old.validation_loss;
    }
  }
  on_event(results::RunEvent::Kind::kFinished, done.step, 0,
           done.stopped ? fmt::format("stopped on request after step {}", done.step) : "finished",
           false);
  results::write_result(fs::path(recipe_.run_folder) / "result.json", result_);
  write_report();
  return result_;
}

/// "16", or "8 to 16".
std::string RunJournal::windows_of_a_step() const {
  int64_t least = 0, most = 0;
  for (const auto& m : metrics_) {
    if (m.batch == 0) continue;
    least = least == 0 ? m.batch : std::min(least, m.batch);
    most = std::max(most, m.batch);
  }
  if (most == 0) return std::to_string(recipe_.train.global_batch);
  return least == most ? std::to_string(most) : fmt::format("{} to {}", least, most);
}

void RunJournal::write_report() {
  results::ReportInput input;
  input.result = result_;
  input.metrics = metrics_;
  input.events = events_;
  input.figures = results::load_figures(fs::path(recipe_.run_folder) / "figures");
  input.facts = {{"Data", data_},
                 {"Model", fmt::format("{} parameters, {} tokens a window",
                                       format_count(static_cast<double>(result_.parameters)),
                                       job_.tokens_per_sample)},
                 {"Training", fmt::format("{} steps of {} windows, {} on {} worker{}",
                                          result_.steps, windows_of_a_step(), result_.strategy,
                                          result_.workers, result_.workers == 1 ? "" : "s")}};
  input.baseline_loss = 1.0;
  input.recipe_yaml = recipe_.settings.dump();
  results::write_report(fs::path(recipe_.run_folder) / "report.html", input);
}

}  // namespace craton::control
