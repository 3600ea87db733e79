#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "craton/app/cli/verbs.h"
#include "craton/base/error.h"
#include "craton/base/units.h"
#include "craton/cluster/strategy_costs.h"
#include "craton/recipe/recipe.h"
#include "craton/results/metrics.h"
#include "craton/runtime/file.h"
#include "craton/volume/plot/chart.h"

namespace craton::app {
namespace {

namespace fs = std::filesystem;
namespace plot = volume::plot;

struct PlanArguments {
  std::string accelerator = "h200", run, out;
  double parameters = 0, blocks = 24, flops_per_sample = 0, activations = 0;
  double sustained = 0, node_gbytes = 0, network_gbytes = 0, latency_us = 10;
  double batch = 8, micro_batch = 1, backups = 1;
  int64_t node_workers = 8, max_workers = 1024;
  bool published = false;
};

/// Sustained flop/s in training, memory, bytes per second within and between nodes per worker.
struct Accelerator {
  double flops, memory, node, network;
};

const std::map<std::string, Accelerator>& accelerators() {
  static const std::map<std::string, Accelerator> known = {{"cpu", {5e10, 0, 4e9, 1e9}},
                                                           {"a100", {1.6e14, 80e9, 300e9, 12.5e9}},
                                                           {"h100", {3.5e14, 80e9, 450e9, 50e9}},
                                                           {"h200", {4e14, 141e9, 450e9, 50e9}}};
  return known;
}

/// A measured run says how many parameters there are and how fast a worker really computes.
void calibrate(PlanArguments& a, cluster::WorkerCosts& worker) {
  const fs::path folder = a.run;
  const auto result = nlohmann::json::parse(runtime::read_text(folder / "result.json"));
  const auto metrics = results::read_metrics(folder / "metrics.jsonl");
  if (metrics.size() < 3)
    fail(ErrorCode::kInvalidArgument, "{} has {} steps; a plan needs 3 to calibrate with", a.run,
         metrics.size());
  a.parameters = result.at("parameters").get<double>();
  const auto recipe = recipe::Recipe::load((folder / "recipe.yaml").string());
  std::vector<double> seconds;
  for (size_t i = 2; i < metrics.size(); ++i)
    seconds.push_back(metrics[i].compute_seconds * static_cast<double>(metrics[i].workers));
  std::nth_element(seconds.begin(),
                   seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2),
                   seconds.end());
  // In units of samples: one sample is one operation.
  a.flops_per_sample = 1;
  worker.flops = static_cast<double>(recipe.train.global_batch) / seconds[seconds.size() / 2];
  fmt::print("calibrated by {}: {} parameters, {:.4g} samples/s of one worker\n", a.run,
             format_count(a.parameters), worker.flops);
}

void print_published(const cluster::ModelCosts& model, const cluster::WorkerCosts& worker) {
  const cluster::StepCosts step{1, 1, 0, 2, 2};
  fmt::print(
      "\nThe published comparison (1.8 B parameters, 128 accelerators; ZeRO-2 ahead of FSDP2 ahead "
      "of "
      "ZeRO-3, 90 to 95 % efficiency) by the same model:\n");
  for (const char* system : {"ZeRO-2", "FSDP2", "ZeRO-3"}) {
    const auto c = cluster::published_costs(system, model, worker, step, 128);
    fmt::print("  {:<7} {:>9.4g} samples/s  efficiency {:>5.1f} %  memory {}\n", system,
               c.samples_per_second, 100 * c.efficiency, format_bytes(c.memory_bytes));
  }
  fmt::print(
      "Where the model is off: it knows no stragglers, no congestion and no overlap within a node "
      "of a "
      "hierarchical ring, and takes the hops of small collectives as never hidden, so it is too "
      "hard on "
      "ZeRO-3, whose prefetch joins small parameters.\n");
}

void draw(const std::string& path, const std::vector<plot::Curve>& curves) {
  plot::ChartStyle style;
  style.title = "Samples/s by strategy";
  style.across.title = "log2 of the number of workers";
  style.down.title = "log2 of samples/s";
  runtime::write_file_atomically(path, plot::encode_png(plot::draw_curves(curves, style)));
}

cluster::WorkerCosts worker_of(PlanArguments& a) {
  const auto known = accelerators().find(a.accelerator);
  if (known == accelerators().end()) {
    std::vector<std::string> names;
    for (const auto& [name, unused] : accelerators()) names.push_back(name);
    fail(ErrorCode::kInvalidArgument, "--accelerator: unknown '{}'; known are {}", a.accelerator,
         fmt::join(names, ", "));
  }
  const Accelerator& kind = known->second;
  cluster::WorkerCosts worker;
  worker.flops = a.sustained > 0 ? a.sustained * 1e12 : kind.flops;
  worker.memory_bytes = kind.memory;
  worker.workers_per_node = a.node_workers;
  worker.node_bytes_per_second = a.node_gbytes > 0 ? a.node_gbytes * 1e9 : kind.node;
  worker.network_bytes_per_second = a.network_gbytes > 0 ? a.network_gbytes * 1e9 : kind.network;
  worker.latency_seconds = a.latency_us * 1e-6;
  return worker;
}

void run_plan(PlanArguments a) {
  cluster::WorkerCosts worker = worker_of(a);
  if (!a.run.empty()) calibrate(a, worker);
  if (a.parameters <= 0 || a.flops_per_sample <= 0) {
    fail(ErrorCode::kInvalidArgument,
         "a plan needs a model: --parameters and --flops-per-sample, or --run with a run's folder");
  }
  const cluster::ModelCosts model{a.parameters, a.blocks, 12, a.flops_per_sample, a.activations};
  const std::vector<std::pair<std::string, plot::Color>> strategies = {{"ddp", plot::kBlack},
                                                                       {"zero1", {200, 60, 40}},
                                                                       {"zero2", {40, 120, 200}},
                                                                       {"zero3", {40, 150, 70}}};
  std::vector<plot::Curve> curves;
  for (const auto& [name, color] : strategies) curves.push_back({{}, {}, color, name});
  fmt::print("{:>7}  {:<9} {:>11} {:>11} {:>11} {:>10} {:>10}\n", "workers", "strategy",
             "samples/s", "memory", "sent/step", "hidden", "efficiency");
  for (int64_t w = 1; w <= a.max_workers; w *= 2) {
    const cluster::StepCosts step{a.batch, std::max(1.0, a.batch / a.micro_batch),
                                  w > 1 ? a.backups : 0};
    std::vector<cluster::StrategyCosts> costs;
    for (size_t k = 0; k < strategies.size(); ++k) {
      auto s = step;
      if (strategies[k].first == "ddp") s.backups = 0;
      costs.push_back(cluster::strategy_costs(strategies[k].first, model, worker, s, w));
      curves[k].x.push_back(std::log2(static_cast<double>(w)));
      curves[k].y.push_back(std::log2(costs.back().samples_per_second));
    }
    for (const auto& c : costs) {
      const double hidden =
          c.communication_seconds > 0 ? c.hidden_seconds / c.communication_seconds : 1;
      fmt::print("{:>7}  {:<9} {:>11.4g} {:>11} {:>11} {:>9.1f}% {:>9.1f}%{}\n", w, c.strategy,
                 c.samples_per_second, format_bytes(c.memory_bytes), format_bytes(c.sent_bytes),
                 100 * hidden, 100 * c.efficiency, c.fits ? "" : "  does not fit");
    }
    const auto choice = cluster::recommend(costs);
    fmt::print("{:>7}  {}{}\n", "", choice.strategy.empty() ? "" : "-> " + choice.strategy + ": ",
               choice.reason);
  }
  if (a.published) print_published(model, worker);
  if (!a.out.empty()) {
    draw(a.out, curves);
    fmt::print("{}: samples/s against workers\n", a.out);
  }
}

}  // namespace

void add_plan(CLI::App& app) {
  auto arguments = std::make_shared<PlanArguments>();
  PlanArguments& a = *arguments;
  CLI::App* plan = app.add_subcommand("plan", "What a job would cost elsewhere, by model");
  plan->require_subcommand(1);
  CLI::App* verb = plan->add_subcommand(
      "parallel", "Sharding strategies for up to thousands of workers, by formula");
  verb->footer(
      "Examples:\n"
      "  craton plan parallel --parameters 1.88e9 --flops-per-sample 3.5e14 --published -o "
      "plan.png\n"
      "  craton plan parallel --run runs/sfm-demo --accelerator cpu --max-workers 64");
  verb->add_option("--run", a.run, "Calibrate with this run: parameters and speed of one worker");
  verb->add_option("--parameters", a.parameters, "Of the model");
  verb->add_option("--blocks", a.blocks, "Of the model")->check(CLI::Range(1.0, 1e6));
  verb->add_option("--flops-per-sample", a.flops_per_sample, "Forward and backward");
  verb->add_option("--activation-bytes", a.activations, "Of one sample");
  verb->add_option("--accelerator", a.accelerator, "cpu, a100, h100 or h200")
      ->capture_default_str();
  verb->add_option("--tflops", a.sustained, "Sustained, instead of the accelerator's");
  verb->add_option("--node-gbytes", a.node_gbytes, "Per second and worker within a node");
  verb->add_option("--network-gbytes", a.network_gbytes, "Per second and worker between nodes");
  verb->add_option("--latency-us", a.latency_us, "Of a hop")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  verb->add_option("--node-workers", a.node_workers, "Workers of a node")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  verb->add_option("--batch", a.batch, "Samples of a worker's step")
      ->check(CLI::Range(1.0, 1e9))
      ->capture_default_str();
  verb->add_option("--micro-batch", a.micro_batch, "Samples at once")
      ->check(CLI::Range(1.0, 1e9))
      ->capture_default_str();
  verb->add_option("--backups", a.backups, "Further copies of the state")
      ->check(CLI::Range(0.0, 3.0))
      ->capture_default_str();
  verb->add_option("--max-workers", a.max_workers, "The largest size")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  verb->add_flag("--published", a.published, "Also the published comparison, by the same model");
  verb->add_option("-o,--out", a.out, "Draw samples/s as PNG");
  verb->callback([arguments] { run_plan(*arguments); });
}

}  // namespace craton::app
