#include <memory>

#include "craton/app/cli/job_argument.h"
#include "craton/app/cli/run_job.h"
#include "craton/app/cli/verbs.h"
#include "craton/base/error.h"
#include "craton/control/job_folder.h"

namespace craton::app {
namespace {
namespace fs = std::filesystem;

/// The recipe that the run has used, in the folder where it is now.
recipe::Recipe recipe_of(const fs::path& folder) {
  const std::string path = (folder / "recipe.yaml").string();
  const recipe::Recipe there = recipe::Recipe::load(path);
  if (fs::weakly_canonical(there.run_folder) == fs::weakly_canonical(folder)) return there;
  std::vector<std::string> moved = {fmt::format("run.folder='{}'", folder.string())};
  if (fs::path(there.checkpoint.path) == fs::path(there.run_folder) / "checkpoints")
    moved.push_back(fmt::format("checkpoint.path='{}'", (folder / "checkpoints").string()));
  return recipe::Recipe::load(path, moved);
}

void resume(const std::string& name, const std::string& listen) {
  const fs::path folder = control::find_job(name);
  const control::JobOnDisk job = control::inspect_job(folder);
  if (job.log && job.log->phase == cluster::JobPhase::kFinished && !job.running)
    fail(ErrorCode::kInvalidArgument, "{} has finished all its {} steps; its results are in {}",
         job.name, job.steps, folder.string());
  run_job(recipe_of(folder), {true, listen});
}

}  // namespace

void add_resume(CLI::App& app) {
  auto job = std::make_shared<std::string>();
  auto listen = std::make_shared<std::string>();
  CLI::App* verb = app.add_subcommand(
      "resume", "Go on with a job that was stopped, or whose `craton train` was killed");
  add_job_argument(*verb, *job);
  verb->add_option("--listen", *listen,
                   "[HOST:]PORT at which agents of other nodes attach; default: where the operator "
                   "that was killed did");
  verb->footer(
      "Workers that still live are taken over, and no step is lost; otherwise the job goes on from "
      "its newest checkpoint.\n"
      "Workers without an operator live for recovery.orphan_seconds of the recipe.\n\n"
      "Example:\n  craton resume demo");
  verb->callback([job, listen] { resume(*job, *listen); });
}

}  // namespace craton::app
