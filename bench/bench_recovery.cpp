// What a failure, a replacement and a backup cost a job of four workers that trains the demo's
// model, and what a generation of 256 workers costs to begin. Everything is measured in one run,
// with real kills of real processes; a figure is a median.
//
// Downtime is the time from a kill until the survivors compute again: from the last commit before
// the kill to the first one after it, less what of the step had been done before the kill and what
// was computed of it afterwards. That work is one normal step and the recomputation; both are
// printed. A restart is the same job killed as a whole and started anew by the same command, with a
// checkpoint every 20 steps.

#include <CLI/CLI.hpp>
#include <filesystem>

#include "bench_generation.h"
#include "bench_job.h"
#include "bench_table.h"

namespace {

using namespace craton;
using namespace craton::bench;

constexpr int kWorkers = 4;
/// Steps before the first disturbance, and between one that is over and the next.
constexpr int kQuietSteps = 12;

struct Failure {
  double downtime = 0, normal_step = 0, recomputation = 0;
  double lost() const { return downtime + recomputation; }
};

struct Admission {
  double pause = 0;
};

/// Median of the seconds of steps first..last.
double median_step(const std::vector<results::StepMetrics>& steps, int64_t first, int64_t last) {
  std::vector<double> seconds;
  for (size_t i = 1; i < steps.size(); ++i) {
    if (steps[i].step >= first && steps[i].step <= last)
      seconds.push_back(steps[i].time - steps[i - 1].time);
  }
  return median(seconds);
}

/// The first step committed after `moment`, as an index.
size_t first_after(const std::vector<results::StepMetrics>& steps, double moment) {
  for (size_t i = 1; i < steps.size(); ++i) {
    if (steps[i].time > moment) return i;
  }
  fail(ErrorCode::kInternal, "the job ended before the failure was over");
}

Failure read_failure(const std::vector<results::StepMetrics>& steps, double killed_at) {
  const size_t i = first_after(steps, killed_at);
  Failure failure;
  failure.normal_step = median_step(steps, steps[i].step - kQuietSteps + 2, steps[i].step - 1);
  const double before = killed_at - steps[i - 1].time;
  failure.downtime = steps[i].time - killed_at - steps[i].seconds;
  failure.recomputation = std::max(0.0, before + steps[i].seconds - failure.normal_step);
  return failure;
}

/// The longest step around the admission of the generation that follows the one of `after`.
Admission read_admission(const std::vector<results::StepMetrics>& steps, size_t after) {
  for (size_t i = after + 1; i < steps.size(); ++i) {
    if (steps[i].generation == steps[after].generation) continue;
    const double normal = median_step(steps, steps[i].step + 2, steps[i].step + kQuietSteps);
    double longest = 0;  // the last step before it, its first and its second step
    for (size_t k = i - 1; k <= i + 1 && k < steps.size(); ++k)
      longest = std::max(longest, steps[k].time - steps[k - 1].time);
    return {longest - normal};
  }
  fail(ErrorCode::kInternal, "nobody was admitted in time");
}

struct Disturbed {
  std::vector<Failure> failures;
  std::vector<Admission> admissions;
  int64_t lost_steps = 0;
};

/// One job in which workers are killed one after the other, each replaced before the next.
Disturbed disturb(const BenchFolder& folder, const std::string& strategy, int kills) {
  const int steps = kQuietSteps + kills * 110;
  BenchJob job(folder, "disturbed-" + strategy,
               {"parallel.strategy=" + strategy, fmt::format("train.steps={}", steps),
                fmt::format("parallel.backups={}", strategy == "ddp" ? 0 : 1)},
               kWorkers);
  std::vector<double> moments;
  int64_t next = kQuietSteps;
  for (int k = 0; k < kills; ++k) {
    job.await_step(next);
    const double step = median_step(job.metrics(), next - kQuietSteps + 2, next);
    sleep_seconds(step * (0.1 + 0.8 * k / std::max(1, kills - 1)));
    moments.push_back(job.kill_worker(static_cast<size_t>(k) % kWorkers));
    next = job.await_admission(kWorkers) + kQuietSteps;
  }
  job.finish();
  Disturbed out;
  const auto metrics = job.metrics();
  for (double moment : moments) {
    out.failures.push_back(read_failure(metrics, moment));
    out.admissions.push_back(read_admission(metrics, first_after(metrics, moment)));
  }
  out.lost_steps = job.result()["lost_steps"];
  return out;
}

/// Seconds from the last commit to the first new one when everything is killed and started anew,
/// less one normal step: start and recomputed steps.
double restart_seconds(const BenchFolder& folder, const std::string& strategy, int round) {
  const std::vector<std::string> overrides = {"parallel.strategy=" + strategy, "train.steps=60",
                                              "checkpoint.every=20", "checkpoint.resume=auto"};
  const std::string name = fmt::format("restarted-{}-{}", strategy, round);
  int64_t reached = 0;
  double killed_at = 0, normal = 0;
  {
    BenchJob job(folder, name, overrides, kWorkers);
    job.await_checkpoint(20);
    job.await_step(30);  // in the middle between two checkpoints
    killed_at = job.kill_all();
    reached = job.metrics().back().step;
    normal = median_step(job.metrics(), 5, reached);
  }
  BenchJob job(folder, name, overrides, kWorkers);
  job.await_step(reached + 1);
  const auto metrics = job.metrics();
  job.kill_all();
  return metrics.at(static_cast<size_t>(reached)).time - killed_at - normal;
}

template <typename Item, typename Get>
double median_of(const std::vector<Item>& items, Get get) {
  std::vector<double> values;
  for (const Item& item : items) values.push_back(get(item));
  return median(values);
}

void measure_failures(const BenchFolder& folder, int kills, int rounds, Table& table) {
  std::vector<Admission> admissions;
  int64_t lost_steps = 0;
  for (const std::string strategy : {"ddp", "zero1", "zero2"}) {
    const Disturbed run = disturb(folder, strategy, kills);
    admissions.insert(admissions.end(), run.admissions.begin(), run.admissions.end());
    lost_steps += run.lost_steps;
    const double downtime = median_of(run.failures, [](const Failure& f) { return f.downtime; });
    const double lost = median_of(run.failures, [](const Failure& f) { return f.lost(); });
    fmt::print("{}: a normal step {:.3f} s, recomputation {:.3f} s; downtimes", strategy,
               median_of(run.failures, [](const Failure& f) { return f.normal_step; }),
               median_of(run.failures, [](const Failure& f) { return f.recomputation; }));
    for (const Failure& failure : run.failures) fmt::print(" {:.3f}", failure.downtime);
    fmt::print("\n");
    table.add_absolute("downtime after kill -9, " + strategy, "s", Better::kLower, downtime, 0.3);
    std::vector<double> restarts;
    for (int r = 0; r < rounds; ++r) restarts.push_back(restart_seconds(folder, strategy, r));
    table.add_ratio("time lost with recomputation / restart, " + strategy, "s", Better::kLower,
                    lost, median(restarts), 20);
  }
  table.add_absolute("finished steps lost", "steps", Better::kLower,
                     static_cast<double>(lost_steps), 0);
  table.add_absolute("pause at the admission of a replacement", "s", Better::kLower,
                     median_of(admissions, [](const Admission& a) { return a.pause; }), 0.2);
}

/// Step times without and with a backup, in turns.
void measure_backups(const BenchFolder& folder, int rounds, int steps, Table& table) {
  std::vector<double> without, with;
  for (int r = 0; r < rounds; ++r) {
    for (int backups : {0, 1}) {
      BenchJob job(folder, fmt::format("steady-{}-{}", backups, r),
                   {"parallel.strategy=zero1", fmt::format("parallel.backups={}", backups),
                    fmt::format("train.steps={}", steps)},
                   kWorkers);
      job.finish();
      const auto metrics = job.metrics();
      auto& seconds = backups == 0 ? without : with;
      for (size_t i = 5; i < metrics.size(); ++i)
        seconds.push_back(metrics[i].time - metrics[i - 1].time);
    }
  }
  const double cost = 100 * (median(with) / median(without) - 1);
  fmt::print("a step without backups {:.4f} s, with one {:.4f} s\n", median(without), median(with));
  table.add_absolute("backups: 1, cost of a step", "%", Better::kLower, cost, 3);
}

void measure_generations(int rounds, Table& table) {
  const std::vector<int> sizes = {64, 128, 256};
  const int shards = 16 * sizes.back();  // a job's shards are fixed, whatever its size
  std::vector<GenerationSeconds> medians;
  for (int size : sizes) {
    std::vector<GenerationSeconds> runs;
    for (int r = 0; r < rounds; ++r) runs.push_back(begin_generation(size, shards));
    GenerationSeconds middle;
    for (const auto& [name, member] : kGenerationParts)
      middle.*member = median_of(runs, [&](const GenerationSeconds& g) { return g.*member; });
    medians.push_back(middle);
    fmt::print("generation of {}:", size);
    for (const auto& [name, member] : kGenerationParts)
      fmt::print(" {} {:.1f} ms;", name, 1e3 * middle.*member);
    fmt::print("\n");
  }
  table.add_absolute("a generation of 256 workers begins", "s", Better::kLower,
                     medians.back().total(), 1);
  for (const auto& [name, member] : kGenerationParts) {
    // All workers share the cores of this machine: what one of them does is its share of the time.
    // Twice as many workers: twice the work, and some room for the clock.
    const bool shared =
        member == &GenerationSeconds::reports || member == &GenerationSeconds::connections;
    const double growth = medians[2].*member / medians[1].*member / (shared ? 2 : 1);
    table.add_absolute(
        fmt::format("{}{}: 256 workers over 128", name, shared ? ", of one worker" : ""), "x",
        Better::kLower, growth, 2.3);
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("What failures, replacements and backups cost a job of four workers");
  std::string json_path, only;
  int kills = 5, rounds = 3, steps = 40;
  app.add_option("--json", json_path, "Also write the table to this file");
  app.add_option("--kills", kills, "Kills per strategy")->check(CLI::Range(1, 100));
  app.add_option("--rounds", rounds, "Turns of everything else")->check(CLI::Range(1, 100));
  app.add_option("--steps", steps, "Steps per turn of the steady cost")
      ->check(CLI::Range(10, 10000));
  app.add_option("--only", only, "One part: failures, backups or generations")
      ->check(CLI::IsMember({"failures", "backups", "generations"}));
  CLI11_PARSE(app, argc, argv);
  try {
    Table table("bench_recovery: 4 workers, demo model");
    const BenchFolder folder;
    if (only.empty() || only == "generations") measure_generations(rounds + 2, table);
    if (only.empty() || only == "failures") measure_failures(folder, kills, rounds, table);
    if (only.empty() || only == "backups") measure_backups(folder, 2 * rounds, steps, table);
    table.print();
    table.write_json(json_path);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_recovery: {}\n", error.what());
    return 1;
  }
  return 0;
}
