// Sharding strategies against Debian's PyTorch with DistributedDataParallel
// (bench/peers/parallel_peer.py), and their memory against the formula. The model is a plain
// transformer of 6 layers and width 256 on all patches of a window. Both run with one thread per
// worker and the same pinned kernels, in turns; a figure is the median over all steps. Craton's
// steps contain everything that a user gets: data, reduction, metrics. This program is also the
// worker of its jobs.

#include <CLI/CLI.hpp>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <thread>

#include "bench_job.h"
#include "bench_table.h"
#include "craton/model/job_callback.h"
#include "craton/model/model.h"
#include "craton/model/patches.h"
#include "craton/model/vit_block.h"
#include "craton/runtime/file.h"
#include "craton/tensor/layers.h"
#include "craton/train/worker_main.h"
#include "job_memory.h"
#include "training_job.h"

namespace {

using namespace craton;
using nlohmann::json;
namespace fs = std::filesystem;

constexpr int kWarmUp = 3;
constexpr double kMiB = 1024 * 1024;

class Transformer : public model::Model {
 public:
  Transformer(const recipe::Settings& settings, uint64_t seed)
      : grid_(settings.integers("window", {}), settings.integers("patch", {})) {
    const int64_t d = settings.integer("dim", 256), depth = settings.integer("depth", 6);
    shape_ = {d, settings.integer("heads", 8), 4 * d};
    const int64_t samples = grid_.patch_samples();
    embed_weight_ = register_parameter("embed_weight", torch::zeros({d, samples}));
    embed_bias_ = register_parameter("embed_bias", torch::zeros({d}));
    for (int64_t i = 0; i < depth; ++i)
      blocks_.push_back(
          register_module("block" + std::to_string(i), std::make_shared<model::VitBlock>(shape_)));
    norm_weight_ = register_parameter("norm_weight", torch::zeros({d}));
    norm_bias_ = register_parameter("norm_bias", torch::zeros({d}));
    head_weight_ = register_parameter("head_weight", torch::zeros({samples, d}));
    head_bias_ = register_parameter("head_bias", torch::zeros({samples}));
    model::init_transformer(*this, seed);
  }

  torch::Tensor loss(const model::Batch& batch) override {
    const torch::Tensor ids = torch::arange(grid_.tokens()).expand({batch.input.size(0), -1});
    const torch::Tensor rows = model::gather_patches(batch.input, grid_, ids.contiguous());
    model::Stream x{tensor::linear(rows, embed_weight_, embed_bias_), {}};
    for (const auto& block : blocks_) x = block->forward(std::move(x), {});
    const torch::Tensor out =
        tensor::linear(x.norm(norm_weight_, norm_bias_, 1e-6), head_weight_, head_bias_);
    return (out - rows).square().mean();
  }
  int64_t tokens_per_sample() const override { return grid_.tokens(); }
  double forward_flops_per_sample() const override {
    return static_cast<double>(blocks_.size()) *
           model::VitBlock::forward_flops(shape_, grid_.tokens(), grid_.tokens(), grid_.tokens());
  }

 private:
  model::PatchGrid grid_;
  model::BlockShape shape_;
  std::vector<std::shared_ptr<model::VitBlock>> blocks_;
  torch::Tensor embed_weight_, embed_bias_, norm_weight_, norm_bias_, head_weight_, head_bias_;
};

/// Writes the most memory that this process has used since `begin` into a file, on the way, until
/// it is destroyed.
class MemoryWatch {
 public:
  explicit MemoryWatch(fs::path file) : file_(std::move(file)), begin_(own_bytes()) {
    thread_ = std::thread([this] { watch(); });
  }
  ~MemoryWatch() {
    over_ = true;
    thread_.join();
  }

 private:
  static double own_bytes() { return static_cast<double>(bench::proportional_bytes("/proc/self")); }
  void watch() {
    double most = 0;
    while (!over_) {
      const double now = own_bytes() - begin_;
      if (now > most) {
        most = now;
        runtime::write_file_atomically(file_, std::to_string(most));
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
  const fs::path file_;
  const double begin_;
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

/// Ends the watch with the last step: the formula is that of training, and the checkpoint behind it
/// holds a copy of its part.
class EndOfWatch : public model::JobCallback {
 public:
  EndOfWatch(std::unique_ptr<MemoryWatch>& watch, int64_t steps) : watch_(watch), steps_(steps) {}
  void on_commit(const model::CommittedStep& step) override {
    if (step.step.value() == steps_) watch_.reset();
  }

 private:
  std::unique_ptr<MemoryWatch>& watch_;
  const int64_t steps_;
};

int be_worker(int argc, char** argv) {
  const char* folder = std::getenv("CRATON_BENCH_MEMORY");
  const char* steps = std::getenv("CRATON_BENCH_STEPS");
  std::unique_ptr<MemoryWatch> watch;
  model::register_model("transformer", [&](const auto& settings, uint64_t seed) {
    if (folder != nullptr && !watch)  // libraries are loaded, and there is no parameter yet
      watch = std::make_unique<MemoryWatch>(fs::path(folder) / std::to_string(::getpid()));
    return std::make_shared<Transformer>(settings, seed);
  });
  if (steps != nullptr) {
    model::register_job_callback(
        [&](const auto&) { return std::make_shared<EndOfWatch>(watch, std::stoll(steps)); });
  }
  return train::worker_main(argc, argv);
}

struct Job {
  std::string strategy = "ddp";
  std::vector<int64_t> window = {32, 32, 32}, patch = {4, 4, 8};
  int64_t dim = 256, depth = 6, heads = 8;
  int64_t batch = 4;  ///< of a micro-batch
  int micro_batches = 2, workers = 2, steps = 12;
  std::string bucket = "4MiB", prefetch = "1GiB";
};

/// Trains and returns the seconds from the end of one step to the end of the next.
std::vector<double> train_seconds(const Job& job, const fs::path& folder,
                                  const std::vector<std::string>& more = {}) {
  const json recipe = {{"name", "parallel"},
                       {"data",
                        {{"volumes", {{{"uri", "survey.mdio"}}}},
                         {"window", job.window},
                         {"prefetch_bytes", job.prefetch}}},
                       {"model",
                        {{"kind", "transformer"},
                         {"window", job.window},
                         {"patch", job.patch},
                         {"dim", job.dim},
                         {"depth", job.depth},
                         {"heads", job.heads}}},
                       {"train",
                        {{"steps", job.steps + kWarmUp},
                         {"global_batch", job.batch * job.micro_batches},
                         {"micro_batch", job.batch},
                         {"validate_every", 0}}},
                       {"parallel",
                        {{"workers", job.workers},
                         {"max_workers", job.workers},
                         {"strategy", job.strategy},
                         {"bucket_bytes", job.bucket}}},
                       {"checkpoint", {{"every", 0}, {"resume", "none"}}}};
  std::vector<std::string> environment = {"CRATON_WORKER=" +
                                          fs::read_symlink("/proc/self/exe").string()};
  environment.insert(environment.end(), more.begin(), more.end());
  const auto metrics = bench::train(recipe, folder, environment);
  std::vector<double> seconds;
  for (size_t i = kWarmUp; i < metrics.size(); ++i)
    seconds.push_back(metrics[i].elapsed_seconds - metrics[i - 1].elapsed_seconds);
  return seconds;
}

std::vector<double> peer_seconds(const Job& job, const fs::path& folder) {
  int64_t tokens = 1;
  for (size_t a = 0; a < job.window.size(); ++a) tokens *= job.window[a] / job.patch[a];
  const json config = {{"patch", job.patch}, {"dim", job.dim},     {"depth", job.depth},
                       {"heads", job.heads}, {"batch", job.batch}, {"tokens", tokens}};
  const auto result = bench::run_in(
      folder, {"/usr/bin/python3", CRATON_SOURCE_DIR "/bench/peers/parallel_peer.py", config.dump(),
               "--steps", std::to_string(job.steps), "--world", std::to_string(job.workers)});
  return json::parse(result.output)["seconds"];
}

/// All strategies and the peer take turns, so that what else the machine does meets all of them.
void measure_speed(const std::string& tokens, Job job, const std::vector<double>& reach, int rounds,
                   const fs::path& folder, bench::Table& table) {
  const std::vector<std::string> strategies = {"ddp", "zero1", "zero2", "zero3", "fsdp"};
  std::vector<std::vector<double>> ours(strategies.size());
  std::vector<double> peer;
  for (int r = 0; r < rounds; ++r) {
    for (size_t k = 0; k < strategies.size(); ++k) {
      job.strategy = strategies[k];
      const auto seconds = train_seconds(job, folder);
      ours[k].insert(ours[k].end(), seconds.begin(), seconds.end());
    }
    const auto seconds = peer_seconds(job, folder);
    peer.insert(peer.end(), seconds.begin(), seconds.end());
  }
  const auto samples = static_cast<double>(job.batch * job.micro_batches);
  for (size_t k = 0; k < strategies.size(); ++k) {
    table.add_ratio(fmt::format("{}, {} tokens, {} workers", strategies[k], tokens, job.workers),
                    "samples/s", bench::Better::kHigher, samples / bench::median(ours[k]),
                    samples / bench::median(peer), reach[k]);
  }
}

/// Memory of a worker by formula, in bytes.
struct Formula {
  double state, partials, parameters, gradients, activations;
  double total() const { return state + partials + parameters + gradients + activations; }
};

Formula formula_of(const Job& job) {
  const auto d = static_cast<double>(job.dim), w = static_cast<double>(job.workers);
  const auto depth = static_cast<double>(job.depth);
  double samples = 1, tokens = 1;
  for (size_t a = 0; a < job.window.size(); ++a) {
    samples *= static_cast<double>(job.patch[a]);
    tokens *= static_cast<double>(job.window[a] / job.patch[a]);
  }
  const double block = 12 * d * d + 13 * d, root = 2 * samples * d + 3 * d + samples;
  const double psi = depth * block + root;
  const double rounds = static_cast<double>(job.micro_batches) / w;
  Formula f;
  f.state = 16 * psi / w;
  f.partials = 4 * psi / w * (std::ceil(std::log2(rounds)) + 1);
  f.parameters = 4 * (root + block);
  f.gradients = 4 * block;
  f.activations = static_cast<double>(job.batch) * tokens * depth * 64 * d;
  return f;
}

void measure_memory(const fs::path& folder, bench::Table& table) {
  Job job;
  job.strategy = "zero3";
  job.window = {16, 16, 32};
  job.patch = {4, 4, 8};
  job.dim = 640;
  job.depth = 16;
  job.batch = 1;
  job.workers = 4;
  job.micro_batches = 8;
  job.steps = 2;
  job.bucket = "1MiB";
  job.prefetch = "8MiB";  // the formula knows no data
  const fs::path memory = folder / "memory";
  fs::create_directories(memory);
  train_seconds(job, folder,
                {"CRATON_BENCH_MEMORY=" + memory.string(),
                 "CRATON_BENCH_STEPS=" + std::to_string(job.steps + kWarmUp)});
  double most = 0;
  for (const auto& entry : fs::directory_iterator(memory))
    most = std::max(most, std::stod(runtime::read_text(entry.path())));
  const Formula f = formula_of(job);
  fmt::print(
      "zero3, 4 workers, {:.1f} M parameters, by formula in MiB: state {:.0f}, partial sums "
      "{:.0f}, "
      "parameters at hand {:.0f}, gradients at hand {:.0f}, activations {:.0f}\n",
      f.state / 16 * job.workers / 1e6, f.state / kMiB, f.partials / kMiB, f.parameters / kMiB,
      f.gradients / kMiB, f.activations / kMiB);
  table.add_absolute("zero3, 4 workers: peak memory over the formula's", "ratio",
                     bench::Better::kLower, most / f.total(), 1.1);
  table.add_absolute("  measured", "MiB", bench::Better::kLower, most / kMiB,
                     1.1 * f.total() / kMiB);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]).starts_with("--recipe")) return be_worker(argc, argv);
  CLI::App app("Sharding strategies against PyTorch, and against their formulas");
  std::string json_path;
  int rounds = 3, steps = 12;
  bool speed = true, memory = true, many_tokens = true;
  app.add_option("--json", json_path, "Also write the table to this file");
  app.add_option("--rounds", rounds, "Turns that each one gets")->check(CLI::Range(1, 100));
  app.add_option("--steps", steps, "Steps per turn")->check(CLI::Range(1, 1000));
  app.add_flag("!--no-speed", speed, "Leave the comparison with PyTorch out");
  app.add_flag("!--no-2048", many_tokens, "Leave the rows of 2,048 tokens out");
  app.add_flag("!--no-memory", memory, "Leave the memory row out");
  CLI11_PARSE(app, argc, argv);
  const runtime::TemporaryDirectory folder;
  bench::run_in(folder.path(), {bench::craton_program(), "volume", "synth", "survey.mdio",
                                "--shape", "128,128,256"});
  bench::Table table("bench_parallel");
  if (speed) {
    Job job;
    job.steps = steps;
    measure_speed("256", job, {1.1, 1.1, 1.1, 1.0, 1.0}, rounds, folder.path(), table);
    job.window = {64, 64, 64};
    job.batch = 1;
    if (many_tokens)
      measure_speed("2,048", job, {1.3, 1.3, 1.3, 1.3, 1.3}, rounds, folder.path(), table);
  }
  if (memory) measure_memory(folder.path(), table);
  table.print();
  table.write_json(json_path);
}
