#include <memory>
#include <string>

#include "craton/app/cli/verbs.h"
#include "craton/base/error.h"
#include "craton/checkpoint/checkpoint.h"
#include "craton/control/worker_process.h"
#include "craton/control/worker_tool.h"
#include "craton/recipe/recipe.h"
#include "craton/runtime/thread_pool.h"

namespace craton::app {
namespace {

struct PredictOptions {
  std::string checkpoint, volume, out, variable;
  bool embed = false, replace = false;
  double mask_ratio = -1, overlap = 0.5;
  size_t threads = runtime::available_cores();
};

void predict(const PredictOptions& o) {
  const checkpoint::CheckpointReader reader(o.checkpoint);
  auto settings =
      recipe::Settings::parse(reader.recipe_yaml(), reader.folder().string() + "/recipe.yaml");
  settings.override_with("device=cpu");
  const recipe::Recipe recipe = recipe::Recipe::read(settings);
  std::vector<std::string> arguments = {"predict",
                                        reader.folder().string(),
                                        o.volume,
                                        "--out=" + o.out,
                                        fmt::format("--threads={}", o.threads),
                                        fmt::format("--overlap={}", o.overlap)};
  if (!o.variable.empty()) arguments.push_back("--variable=" + o.variable);
  if (o.mask_ratio >= 0) arguments.push_back(fmt::format("--mask-ratio={}", o.mask_ratio));
  if (o.embed) arguments.push_back("--embed");
  if (o.replace) arguments.push_back("--replace");
  const int code =
      control::run_worker_tool(control::find_worker_program(), arguments, recipe.kernels);
  if (code != 0) throw CLI::RuntimeError(code);  // the worker has said what it was
}

}  // namespace

void add_predict(CLI::App& app) {
  auto options = std::make_shared<PredictOptions>();
  PredictOptions& o = *options;
  CLI::App* verb = app.add_subcommand(
      "predict", "Fill the dead traces of a volume with a trained model, or get its features");
  verb->add_option("checkpoint", o.checkpoint,
                   "A run's folder (its newest checkpoint), or a checkpoint")
      ->required();
  verb->add_option("volume", o.volume, "Volume: a path or URI")->required();
  verb->add_option("--out", o.out, "Store to make; a picture OUT.png is put beside it")->required();
  CLI::Option* embed = verb->add_flag("--embed", o.embed,
                                      "Write the features of each patch instead, as a Zarr array");
  verb->add_option("--mask-ratio", o.mask_ratio,
                   "A test of the model: hide this share of each window and predict it, everywhere")
      ->check(CLI::Range(0.01, 0.99))
      ->excludes(embed);
  verb->add_option("--overlap", o.overlap, "Share of a window that its neighbour covers too")
      ->check(CLI::Range(0.0, 0.9))
      ->capture_default_str()
      ->excludes(embed);
  verb->add_option("--variable", o.variable, "Array of the volume, if not its default");
  verb->add_option("--threads", o.threads, "Threads (all cores); the result does not depend on it")
      ->check(CLI::Range(1, 1024));
  verb->add_flag("--replace", o.replace, "Replace a store that is there");
  verb->footer(
      "Live samples stay as they are. A trace is dead when the volume says so, or when all its "
      "samples are 0.\n\n"
      "Examples:\n"
      "  craton predict runs/sfm-demo volumes/demo.mdio --out runs/sfm-demo/predicted.mdio\n"
      "  craton predict runs/sfm-demo volumes/demo.mdio --out features.zarr --embed");
  verb->callback([options] { predict(*options); });
}

}  // namespace craton::app
