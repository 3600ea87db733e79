#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "craton/app/cli/bench_verbs.h"
#include "craton/base/error.h"
#include "craton/base/units.h"
#include "craton/cluster/strategy_costs.h"
#include "craton/recipe/recipe.h"
#include "craton/results/metrics.h"
#include "craton/runtime/file.h"
#include "craton/runtime/process.h"

namespace craton::app {
namespace {

namespace fs = std::filesystem;

/// Steps in which memory and caches are still filling.
constexpr size_t kWarmUp = 2;

struct ParallelArguments {
  std::string recipe, json;
  int64_t workers = 2, steps = 8;
  std::vector<std::string> strategies, overrides;
};

/// What one run showed.
struct Measured {
  double step_seconds = 0, samples_per_second = 0;
  double tokens_per_second = 0;
  double hidden_share = 1;  ///< of communication, behind computing
  double memory_bytes = 0, sent_bytes = 0;
  int64_t parameters = 0;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

Measured measure(const ParallelArguments& arguments, const std::string& strategy, int64_t workers,
                 const fs::path& folder) {
  const std::string name = fmt::format("{}-{}", strategy, workers);
  const fs::path run = folder / name;
  std::vector<std::string> argv = {"/proc/self/exe", "train", arguments.recipe, "--workers",
                                   std::to_string(workers)};
  argv.insert(argv.end(), arguments.overrides.begin(), arguments.overrides.end());
  for (const std::string& fixed :
       {"name=" + name, "run.folder=" + run.string(), "parallel.strategy=" + strategy,
        fmt::format("train.steps={}", arguments.steps + static_cast<int64_t>(kWarmUp)),
        std::string("train.validate_every=0"), std::string("checkpoint.every=0"),
        std::string("checkpoint.resume=none")})
    argv.push_back(fixed);
  runtime::ProgramOptions options;
  options.timeout = std::chrono::hours(24);
  const auto result = runtime::run_program(argv, options);
  if (result.exit_code != 0) {
    fail(ErrorCode::kInvalidArgument, "{} with {} worker{} does not train: {}", strategy, workers,
         workers == 1 ? "" : "s", result.errors.empty() ? result.output : result.errors);
  }
  const auto metrics = results::read_metrics(run / "metrics.jsonl");
  if (metrics.size() <= kWarmUp) {
    fail(ErrorCode::kInvalidArgument, "{} with {} workers left no metrics in {}", strategy, workers,
         run.string());
  }
  std::vector<double> seconds, hidden, sent, tokens;
  Measured m;
  for (size_t i = kWarmUp; i < metrics.size(); ++i) {
    seconds.push_back(metrics[i].elapsed_seconds - metrics[i - 1].elapsed_seconds);
    const double visible = metrics[i].reduce_seconds + metrics[i].gather_seconds;
    const double all = std::max(metrics[i].communication_seconds, visible);
    hidden.push_back(all > 0 ? 1 - visible / all : 1);
    sent.push_back(static_cast<double>(metrics[i].sent_bytes));
    tokens.push_back(metrics[i].tokens_per_second / metrics[i].samples_per_second);
    m.memory_bytes = std::max(m.memory_bytes, static_cast<double>(metrics[i].memory_bytes));
  }
  const auto recipe = recipe::Recipe::load(arguments.recipe, arguments.overrides);
  m.step_seconds = median(seconds);
  m.samples_per_second = static_cast<double>(recipe.train.global_batch) / m.step_seconds;
  m.tokens_per_second = m.samples_per_second * median(tokens);
  m.hidden_share = median(hidden);
  m.sent_bytes = median(sent);
  const auto json = nlohmann::json::parse(runtime::read_text(run / "result.json"));
  m.parameters = json.at("parameters").get<int64_t>();
  return m;
}

std::vector<std::string> chosen(const ParallelArguments& arguments) {
  const auto& known = recipe::strategy_names();
  if (arguments.strategies.empty()) return known;
  for (const std::string& name : arguments.strategies) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      fail(ErrorCode::kInvalidArgument, "--strategies: unknown strategy '{}'; known are {}", name,
           fmt::join(known, ", "));
    }
  }
  return arguments.strategies;
}

/// Costs by formula, with the computing time of one worker as the measured one.
cluster::StrategyCosts by_formula(const std::string& strategy, const Measured& one,
                                  const recipe::Recipe& recipe, int64_t workers) {
  cluster::ModelCosts model;
  model.parameters = static_cast<double>(one.parameters);
  model.flops_per_sample = 1;
  cluster::StepCosts step;
  const auto w = static_cast<double>(workers);
  step.samples_per_worker = static_cast<double>(recipe.train.global_batch) / w;
  step.micro_batches_per_worker = static_cast<double>(recipe.units()) / w;
  step.backups = strategy == "ddp" ? 0 : static_cast<double>(recipe.parallel.backups);
  cluster::WorkerCosts worker;
  worker.flops = one.samples_per_second;
  worker.node_bytes_per_second = worker.network_bytes_per_second = 1e9;
  worker.workers_per_node = workers;
  return cluster::strategy_costs(strategy, model, worker, step, workers);
}

void run_parallel(const ParallelArguments& arguments) {
  const auto recipe = recipe::Recipe::load(arguments.recipe, arguments.overrides);
  const auto strategies = chosen(arguments);
  const runtime::TemporaryDirectory folder;
  fmt::print("{}: {} steps each, {} worker{}\n", arguments.recipe, arguments.steps,
             arguments.workers, arguments.workers == 1 ? "" : "s");
  std::fflush(stdout);
  const Measured one = measure(arguments, "ddp", recipe.parallel.context, folder.path());
  fmt::print("{:<8} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>8} {:>11}\n", "strategy",
             "samples/s", "tokens/s", "memory", "formula", "sent/step", "formula", "hidden",
             "efficiency");
  std::vector<cluster::StrategyCosts> costs;
  nlohmann::json rows = nlohmann::json::array();
  for (const std::string& strategy : strategies) {
    const Measured m = measure(arguments, strategy, arguments.workers, folder.path());
    auto cost = by_formula(strategy, one, recipe, arguments.workers);
    const double efficiency = m.samples_per_second / one.samples_per_second *
                              static_cast<double>(recipe.parallel.context) /
                              static_cast<double>(arguments.workers);
    fmt::print("{:<8} {:>10.4g} {:>10.4g} {:>10} {:>10} {:>10} {:>10} {:>7.1f}% {:>10.1f}%\n",
               strategy, m.samples_per_second, m.tokens_per_second, format_bytes(m.memory_bytes),
               format_bytes(cost.memory_bytes), format_bytes(m.sent_bytes),
               format_bytes(cost.sent_bytes), 100 * m.hidden_share, 100 * efficiency);
    std::fflush(stdout);
    rows.push_back({{"strategy", strategy},
                    {"samples_per_second", m.samples_per_second},
                    {"resident_bytes", m.memory_bytes},
                    {"formula_state_bytes", cost.memory_bytes},
                    {"sent_bytes", m.sent_bytes},
                    {"formula_sent_bytes", cost.sent_bytes},
                    {"tokens_per_second", m.tokens_per_second},
                    {"hidden_communication_share", m.hidden_share},
                    {"efficiency", efficiency}});
    cost.samples_per_second = m.samples_per_second;
    costs.push_back(cost);
  }
  const auto choice = cluster::recommend(costs);
  fmt::print("recommended: {}, {}\n", choice.strategy, choice.reason);
  fmt::print(
      "memory is what is resident in the largest worker, with programs and activations and the "
      "pages of other workers that it read; its formula is that of the training state "
      "(docs/parallelism.md). hidden is the share of communication behind computing. efficiency is "
      "against one worker (with parallel.context, one group) with ddp.\n");
  if (!arguments.json.empty()) {
    runtime::write_file_atomically(
        arguments.json, nlohmann::json{{"recipe", arguments.recipe},
                                       {"workers", arguments.workers},
                                       {"one_worker_samples_per_second", one.samples_per_second},
                                       {"rows", rows},
                                       {"recommended", choice.strategy}}
                            .dump(2));
  }
}

}  // namespace

void add_bench_parallel(CLI::App& bench) {
  auto arguments = std::make_shared<ParallelArguments>();
  ParallelArguments& a = *arguments;
  CLI::App* verb =
      bench.add_subcommand("parallel", "Train a recipe with each sharding strategy and compare");
  verb->footer(
      "Example:\n"
      "  craton bench parallel recipes/sfm-demo.yaml --workers 2 --steps 10");
  verb->add_option("recipe", a.recipe, "The recipe, a YAML file")->required();
  verb->add_option("--workers,-n", a.workers, "Worker processes")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  verb->add_option("--steps", a.steps, "Steps that count, per strategy")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  verb->add_option("--strategies", a.strategies, "Only these, separated by commas")
      ->delimiter(',')
      ->allow_extra_args(false);
  verb->add_option("--json", a.json, "Write the figures to this file");
  verb->add_option("overrides", a.overrides, "key=value, as for craton train");
  verb->callback([arguments] { run_parallel(*arguments); });
}

}  // namespace craton::app
