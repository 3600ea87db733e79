// Training of the demo's model with `craton train` against the same model in PyTorch
// (bench/peers/step_peer.py, DistributedDataParallel over gloo for two workers). Both run with one
// thread per worker and the same pinned kernels, in turns; a figure is the median over all steps.
// Craton's steps contain everything that a user gets: data, reduction, metrics.

#include <CLI/CLI.hpp>
#include <filesystem>

#include "bench_table.h"
#include "craton/results/metrics.h"
#include "craton/runtime/file.h"
#include "craton/runtime/process.h"

namespace {

using namespace craton;
using nlohmann::json;
namespace fs = std::filesystem;

constexpr int kWarmUp = 3;

/// One row: a window, the samples of a worker's step and how many of them it computes at once.
struct Case {
  std::string tokens;
  std::vector<int64_t> window;
  int64_t batch, micro_batch;
  int workers;
  double reach;
};

/// The model of recipes/sfm-demo.yaml with all its values, as the peer needs them.
json demo_model() {
  return {{"patch", {2, 2, 32}},
          {"mask_ratio", 0.75},
          {"positions", "rotary"},
          {"rotary_base", 100.0},
          {"dim", 128},
          {"depth", 4},
          {"heads", 4},
          {"mlp_ratio", 4},
          {"decoder_dim", 64},
          {"decoder_depth", 1},
          {"decoder_heads", 2},
          {"decoder_mlp_ratio", 4},
          {"amplitude_weight", 0.05}};
}

/// The variables that `kernels: portable` sets for a worker.
const std::vector<std::string> kPinned = {"OPENBLAS_NUM_THREADS=1", "OMP_NUM_THREADS=1",
                                          "OPENBLAS_CORETYPE=Haswell", "ATEN_CPU_CAPABILITY=avx2",
                                          "ONEDNN_MAX_CPU_ISA=AVX2"};

runtime::ProgramResult run(const std::vector<std::string>& argv, const fs::path& folder) {
  runtime::ProgramOptions options;
  options.environment = kPinned;
  options.folder = folder.string();
  const auto result = runtime::run_program(argv, options);
  if (result.exit_code != 0) {
    fmt::print(stderr, "bench_step: {} ended with {}\n{}\n", argv[0], result.exit_code,
               result.errors);
    std::exit(1);
  }
  return result;
}

/// Seconds from the end of one step to the end of the next.
std::vector<double> craton_seconds(const Case& c, int steps, const fs::path& folder) {
  json model = demo_model();
  model["kind"] = "sfm";
  const json recipe = {{"name", "step"},
                       {"data", {{"volumes", {{{"uri", "survey.mdio"}}}}, {"window", c.window}}},
                       {"model", model},
                       {"train",
                        {{"steps", steps + kWarmUp},
                         {"global_batch", c.batch * c.workers},
                         {"micro_batch", c.micro_batch},
                         {"validate_every", 0}}},
                       {"parallel", {{"workers", c.workers}, {"max_workers", c.workers}}},
                       {"checkpoint", {{"every", 0}, {"resume", "none"}}}};
  runtime::write_file_atomically(folder / "step.yaml", recipe.dump(2));
  const fs::path program = fs::read_symlink("/proc/self/exe").parent_path() / "../bin/craton";
  fs::remove_all(folder / "runs");
  run({program.string(), "train", "step.yaml"}, folder);
  const auto metrics = results::read_metrics(folder / "runs/step/metrics.jsonl");
  std::vector<double> seconds;
  for (size_t i = kWarmUp; i < metrics.size(); ++i) {
    seconds.push_back(metrics[i].elapsed_seconds - metrics[i - 1].elapsed_seconds);
  }
  return seconds;
}

std::vector<double> peer_seconds(const Case& c, int steps, const fs::path& folder) {
  json config = demo_model();
  config["window"] = c.window;
  config["batch"] = c.batch;
  const auto result =
      run({"/usr/bin/python3", CRATON_SOURCE_DIR "/bench/peers/step_peer.py", config.dump(),
           "--steps", std::to_string(steps), "--world", std::to_string(c.workers)},
          folder);
  return json::parse(result.output)["seconds"];
}

void measure(const Case& c, int rounds, int steps, const fs::path& folder, bench::Table& table) {
  std::vector<double> ours, peer;
  for (int r = 0; r < rounds; ++r) {
    const auto theirs = peer_seconds(c, steps, folder);
    peer.insert(peer.end(), theirs.begin(), theirs.end());
    const auto own = craton_seconds(c, steps, folder);
    ours.insert(ours.end(), own.begin(), own.end());
  }
  const auto samples = static_cast<double>(c.batch * c.workers);
  table.add_ratio(fmt::format("demo model, {} tokens, {} worker{}", c.tokens, c.workers,
                              c.workers > 1 ? "s" : ""),
                  "samples/s", bench::Better::kHigher, samples / bench::median(ours),
                  samples / bench::median(peer), c.reach);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Training of the demo's model against PyTorch");
  std::string json_path;
  int rounds = 3, steps = 12;
  app.add_option("--json", json_path, "Also write the table to this file");
  app.add_option("--rounds", rounds, "Turns that each of the two gets")->check(CLI::Range(1, 100));
  app.add_option("--steps", steps, "Steps per turn")->check(CLI::Range(1, 1000));
  CLI11_PARSE(app, argc, argv);
  const runtime::TemporaryDirectory folder;
  const fs::path program = fs::read_symlink("/proc/self/exe").parent_path() / "../bin/craton";
  run({program.string(), "volume", "synth", "survey.mdio", "--shape", "128,128,256"},
      folder.path());
  bench::Table table("bench_step");
  for (const Case& c :
       {Case{"256", {32, 32, 32}, 8, 4, 1, 1.15}, Case{"256", {32, 32, 32}, 8, 4, 2, 1.15},
        Case{"2,048", {64, 64, 64}, 2, 1, 1, 1.5}, Case{"2,048", {64, 64, 64}, 2, 1, 2, 1.5}}) {
    measure(c, rounds, steps, folder.path(), table);
  }
  table.print();
  table.write_json(json_path);
}
