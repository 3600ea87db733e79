#include <signal.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>

#include "craton/app/cli/prepare_volumes.h"
#include "craton/app/cli/verbs.h"
#include "craton/base/error.h"
#include "craton/checkpoint/checkpoint.h"
#include "craton/control/local_job.h"
#include "craton/control/run_journal.h"
#include "craton/recipe/recipe.h"
#include "craton/runtime/file.h"

namespace craton::app {
namespace {
namespace fs = std::filesystem;

std::atomic<int> g_interrupts{0};

struct TrainOptions {
  std::string recipe;
  int64_t workers = 0;
  std::vector<std::string> overrides;
};

/// The first Ctrl-C or SIGTERM asks the job to finish its step, save and end; the second ends it at
/// once.
void catch_interrupts() {
  struct sigaction action = {};
  action.sa_handler = [](int) {
    if (++g_interrupts > 1) ::_exit(130);
  };
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

/// Step of the checkpoint to go on from; 0: from the start.
int64_t find_resume_step(const recipe::Recipe& recipe) {
  const std::string& resume = recipe.checkpoint.resume;
  if (resume == "none") return 0;
  std::optional<fs::path> folder =
      resume == "auto" ? checkpoint::newest_checkpoint(recipe.checkpoint.path) : fs::path(resume);
  if (!folder) return 0;
  const checkpoint::CheckpointReader reader(*folder);
  if (reader.manifest().recipe_digest != recipe.digest()) {
    fail(ErrorCode::kInvalidArgument,
         "{} was made by another recipe, so its run cannot go on with the same results; give the "
         "job another name, or start anew with checkpoint.resume=none",
         reader.folder().string());
  }
  return reader.manifest().step;
}

void train(const TrainOptions& options) {
  std::vector<std::string> overrides = options.overrides;
  if (options.workers != 0)
    overrides.push_back(fmt::format("parallel.workers={}", options.workers));
  const std::vector<std::string> made =
      prepare_volumes(recipe::Recipe::load(options.recipe, overrides));
  overrides.insert(overrides.end(), made.begin(), made.end());
  const recipe::Recipe recipe = recipe::Recipe::load(options.recipe, overrides);
  const int64_t first_step = find_resume_step(recipe);
  fs::create_directories(recipe.run_folder);
  const std::string resolved = recipe.run_folder + "/recipe.yaml";
  runtime::write_file_atomically(resolved, recipe.settings.dump());

  catch_interrupts();
  control::RunJournal journal(recipe, first_step);
  control::LocalJobOptions job_options;
  job_options.worker_program = control::find_worker_program();
  job_options.recipe_path = resolved;
  job_options.restore_step = first_step;
  job_options.stop_requested = [] { return g_interrupts > 0; };
  control::LocalJob job(recipe, job_options, journal);
  const results::Result result = journal.finish(job.run());
  if (result.stopped)
    fmt::print("stopped after step {}; the same command goes on from there\n", result.steps);
  fmt::print("report {}/report.html\nstate sha256 {}\n", recipe.run_folder, result.state_sha256);
}

}  // namespace

void add_train(CLI::App& app) {
  auto options = std::make_shared<TrainOptions>();
  CLI::App* verb =
      app.add_subcommand("train", "Train a model as a recipe says, with workers on this machine");
  verb->add_option("recipe", options->recipe, "The recipe, a YAML file")->required();
  verb->add_option("--workers,-n", options->workers,
                   "Number of worker processes; default: parallel.workers of the recipe")
      ->check(CLI::Range(1, 4096));
  verb->add_option("overrides", options->overrides,
                   "key=value, e.g. train.steps=50 parallel.strategy=zero2");
  verb->footer(
      "Results are in runs/NAME: report.html, result.json, metrics.jsonl, tensorboard/, "
      "checkpoints/.\n"
      "Ctrl-C finishes the step, saves and ends; the same command goes on from there.\n\n"
      "Examples:\n"
      "  craton train recipes/sfm-demo.yaml\n"
      "  craton train recipes/sfm-demo.yaml --workers 4 parallel.strategy=zero2 train.steps=20");
  verb->callback([options] { train(*options); });
}

}  // namespace craton::app
