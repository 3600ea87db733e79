#include <fmt/format.h>

#include <memory>

#include "craton/app/cli/job_argument.h"
#include "craton/app/cli/verbs.h"
#include "craton/base/units.h"
#include "craton/control/job_folder.h"
#include "craton/control/operator_service.h"

namespace craton::app {
namespace {

std::string_view name_of(cluster::JobPhase phase) {
  using cluster::JobPhase;
  switch (phase) {
    case JobPhase::kStarting:
      return "starting";
    case JobPhase::kTraining:
      return "training";
    case JobPhase::kBoundary:
      return "changing at the next step boundary";
    case JobPhase::kRecovering:
      return "recovering";
    default:
      return "ending";
  }
}

std::string_view name_of(cluster::StepPhase phase) {
  static constexpr std::string_view kNames[] = {"starting", "compute", "reduce", "store",
                                                "commit",   "apply",   "gather", "validation",
                                                "saving",   "decision"};
  return kNames[static_cast<size_t>(phase)];
}

std::string doing(const protocol::JobStatus::Worker& worker) {
  if (worker.state != "trains" && worker.state != "leaves") return "";
  std::string text =
      fmt::format("step {}, {}{}", worker.progress.step.value(),
                  worker.progress.waiting ? "waits in " : "", name_of(worker.progress.phase));
  if (worker.unchanged > cluster::Duration(2000))
    text += fmt::format(", for {} s", worker.unchanged.count() / 1000);
  return text;
}

void print(const protocol::JobStatus& job) {
  fmt::print("{}  {}\n", job.name, name_of(job.phase));
  fmt::print("step        {} of {}", job.step, job.steps);
  if (job.step > 0)
    fmt::print(", loss {:.4f}, {} a step", job.loss, format_seconds(job.seconds_per_step));
  if (job.batch > 0)
    fmt::print("\nbatch       {} samples, learning rate {:.2e}", job.batch, job.learning_rate);
  fmt::print("\nworkers     {} wanted, {} to {} possible", job.requested, job.min_workers,
             job.max_workers);
  if (job.spares > 0) fmt::print(", {} spares", job.spares);
  fmt::print("\ngeneration  {}, {}\n", job.generation, job.strategy);
  if (job.checkpoint > 0) fmt::print("checkpoint  step {}\n", job.checkpoint);
  fmt::print("operator    process {}, running for {}\n\n", job.pid,
             format_seconds(job.elapsed_seconds));
  fmt::print("{:>4}  {:<8} {:>6} {:>8}  {:<16} {}\n", "rank", "state", "worker", "process", "node",
             "doing");
  for (const auto& worker : job.workers) {
    fmt::print("{:>4}  {:<8} {:>6} {:>8}  {:<16} {}\n",
               worker.rank < 0 ? "-" : std::to_string(worker.rank), worker.state, worker.number,
               worker.pid, worker.node, doing(worker));
  }
}

void show_status(const std::string& name) {
  const auto folder = control::find_job(name);
  const control::JobOnDisk job = control::inspect_job(folder);
  if (job.running) {
    if (const auto status = try_status(folder)) return print(*status);
  }
  fmt::print("{}  {}\nstep        {} of {}\n", job.name, control::describe(job), job.last_step,
             job.steps);
  const std::string hint = what_to_do(job);
  if (!hint.empty()) fmt::print("{}\n", hint);
}

void show_jobs() {
  const auto folders = control::list_jobs();
  if (folders.empty()) {
    fmt::print("no job has run here (./runs is empty)\n");
    return;
  }
  fmt::print("{:<24} {:>15} {:>8}  {}\n", "job", "step", "workers", "state");
  for (const auto& folder : folders) {
    const control::JobOnDisk job = control::inspect_job(folder);
    std::string workers = "-";
    if (job.running && job.log)
      workers = std::to_string(cluster::training_members(job.log->membership.members));
    fmt::print("{:<24} {:>15} {:>8}  {}\n", job.name,
               fmt::format("{} of {}", job.last_step, job.steps), workers,
               control::describe(job).substr(0, 100));
  }
}

}  // namespace

void add_status(CLI::App& app) {
  auto job = std::make_shared<std::string>();
  CLI::App* verb = app.add_subcommand("status", "Show how a job is doing and who works on it");
  add_job_argument(*verb, *job);
  verb->callback([job] { show_status(*job); });
}

void add_jobs(CLI::App& app) {
  app.add_subcommand("jobs", "List the jobs of ./runs")->callback([] { show_jobs(); });
}

}  // namespace craton::app
