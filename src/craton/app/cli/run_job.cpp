#include "craton/app/cli/run_job.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <optional>

#include "craton/base/error.h"
#include "craton/checkpoint/checkpoint.h"
#include "craton/control/job_folder.h"
#include "craton/control/job_operator.h"
#include "craton/control/run_journal.h"
#include "craton/control/worker_list.h"
#include "craton/runtime/file.h"

namespace craton::app {
namespace {
namespace fs = std::filesystem;

std::atomic<int> g_interrupts{0};

void catch_interrupts() {
  struct sigaction action = {};
  action.sa_handler = [](int) {
    if (++g_interrupts > 2) ::_exit(130);
  };
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

/// A checkpoint that cannot go on with this recipe.
[[noreturn]] void refuse(const checkpoint::CheckpointReader& reader, const recipe::Recipe& recipe) {
  const std::string path = (reader.folder() / "recipe.yaml").string();
  const recipe::Recipe before =
      recipe::Recipe::read(recipe::Settings::parse(reader.recipe_yaml(), path));
  const int64_t meant = before.elastic.reference_workers;
  if (recipe.elastic.scales_batch && before.elastic.scales_batch &&
      recipe.elastic.reference_workers != meant) {
    fail(ErrorCode::kInvalidArgument,
         "{}: its batch is that of {} workers, and this recipe's that of {}; to go on with another "
         "number of workers set elastic.reference_workers={}, or start anew with "
         "checkpoint.resume=none",
         reader.folder().string(), meant, recipe.elastic.reference_workers, meant);
  }
  fail(ErrorCode::kInvalidArgument,
       "{} was made by another recipe, so its run cannot go on with the same results; give the "
       "job another name, or start anew with checkpoint.resume=none",
       reader.folder().string());
}

/// The checkpoint to go on from; without: from the start.
std::optional<checkpoint::Manifest> find_resume_point(const recipe::Recipe& recipe) {
  const std::string& resume = recipe.checkpoint.resume;
  if (resume == "none") return std::nullopt;
  std::optional<fs::path> folder =
      resume == "auto" ? checkpoint::newest_checkpoint(recipe.checkpoint.path) : fs::path(resume);
  if (!folder) return std::nullopt;
  const checkpoint::CheckpointReader reader(*folder);
  if (reader.manifest().recipe_digest != recipe.digest()) refuse(reader, recipe);
  return reader.manifest();
}

/// An operator that was killed had agents at this address; empty: it had none.
std::string agents_of_before(const recipe::Recipe& recipe) {
  const auto address = control::read_operator_address(recipe.run_folder);
  return address ? address->agents : "";
}

/// Workers of an unfinished job still live, here or, as far as one can know, with its agents.
bool somebody_waits(const recipe::Recipe& recipe) {
  const control::JobOnDisk job = control::inspect_job(recipe.run_folder);
  return job.log && !cluster::is_terminal(job.log->phase) && !job.log->membership.members.empty() &&
         (!agents_of_before(recipe).empty() || !control::live_workers(recipe.run_folder).empty());
}

/// "[HOST:]PORT" with the host.
std::string listen_address(const std::string& text) {
  const size_t colon = text.rfind(':');
  const std::string port = colon == std::string::npos ? text : text.substr(colon + 1);
  const bool good = !port.empty() && port.size() <= 5 &&
                    port.find_first_not_of("0123456789") == std::string::npos &&
                    std::stoi(port) <= 65535;
  if (!good)
    fail(ErrorCode::kInvalidArgument, "--listen takes [HOST:]PORT, e.g. 7077; found '{}'", text);
  return colon == std::string::npos ? "0.0.0.0:" + port : text;
}

}  // namespace

void run_job(const recipe::Recipe& recipe, const RunOptions& run) {
  std::string listen = run.listen.empty() ? "" : listen_address(run.listen);
  const control::RunLock lock(recipe.run_folder);
  const bool take_over = run.take_over && somebody_waits(recipe);
  if (listen.empty() && take_over) listen = agents_of_before(recipe);
  const auto resumed = take_over ? std::nullopt : find_resume_point(recipe);
  const int64_t first_step = take_over ? control::inspect_job(recipe.run_folder).last_step
                             : resumed ? resumed->step
                                       : 0;
  runtime::write_file_atomically(recipe.run_folder + "/recipe.yaml", recipe.settings.dump());

  catch_interrupts();
  control::RunJournal journal(recipe, first_step);
  control::JobOperatorOptions options;
  options.worker_program = control::find_worker_program();
  options.listen = listen;
  options.restore_step = first_step;
  options.restore_samples = resumed ? resumed->samples_seen : 0;
  options.take_over = take_over;
  options.stop_requested = [] { return g_interrupts > 0; };
  options.abandon_requested = [] { return g_interrupts > 1; };
  control::JobOperator job(recipe, options, journal);
  const results::Result result = journal.finish(job.run());
  if (result.stopped)
    fmt::print("stopped after step {}; the same command goes on from there\n", result.steps);
  fmt::print("report {}/report.html\nstate sha256 {}\n", recipe.run_folder, result.state_sha256);
}

}  // namespace craton::app
