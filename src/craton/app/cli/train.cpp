#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "craton/app/cli/prepare_volumes.h"
#include "craton/app/cli/run_job.h"
#include "craton/app/cli/verbs.h"
#include "craton/recipe/recipe.h"

namespace craton::app {
namespace {

struct TrainOptions {
  std::string recipe;
  int64_t workers = 0;
  std::string listen;
  std::vector<std::string> overrides;
};

void train(const TrainOptions& options) {
  std::vector<std::string> overrides = options.overrides;
  if (options.workers != 0)
    overrides.push_back(fmt::format("parallel.workers={}", options.workers));
  const std::vector<std::string> made =
      prepare_volumes(recipe::Recipe::load(options.recipe, overrides));
  overrides.insert(overrides.end(), made.begin(), made.end());
  run_job(recipe::Recipe::load(options.recipe, overrides), {false, options.listen});
}

}  // namespace

void add_train(CLI::App& app) {
  auto options = std::make_shared<TrainOptions>();
  CLI::App* verb = app.add_subcommand(
      "train",
      "Train a model as a recipe says, with workers on this machine or, with --listen, on others");
  verb->add_option("recipe", options->recipe, "The recipe, a YAML file")->required();
  verb->add_option("--workers,-n", options->workers,
                   "Number of worker processes; default: parallel.workers of the recipe")
      ->check(CLI::Range(1, 4096));
  verb->add_option("--listen", options->listen,
                   "[HOST:]PORT at which agents of other nodes attach; all workers run there "
                   "(`craton agent`)");
  verb->add_option("overrides", options->overrides,
                   "key=value, e.g. train.steps=50 parallel.strategy=zero2");
  verb->footer(
      "Results are in runs/NAME: report.html, result.json, metrics.jsonl, tensorboard/, "
      "checkpoints/.\n"
      "Ctrl-C finishes the step, saves and ends; the same command goes on from there.\n\n"
      "Examples:\n"
      "  craton train recipes/sfm-demo.yaml\n"
      "  craton train recipes/sfm-demo.yaml --workers 4 parallel.strategy=zero2 train.steps=20\n"
      "  craton train recipes/sfm-demo.yaml --listen 7077   # then, on each node: craton agent "
      "HOST:7077");
  verb->callback([options] { train(*options); });
}

}  // namespace craton::app
