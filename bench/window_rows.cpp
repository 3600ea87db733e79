#include "window_rows.h"

#include <algorithm>
#include <chrono>

#include "bench_job.h"
#include "craton/runtime/file.h"
#include "job_memory.h"
#include "training_job.h"

namespace craton::bench {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int64_t kPatch = 4;
constexpr int64_t kRowTokens = 16 * 32;  // patches of one row along the first axis
constexpr int64_t kRows = 64;            // of one worker's window
constexpr int kWorkers = 8;
constexpr double kMiB = 1 << 20, kGiB = 1 << 30;

/// Most memory of a worker, in bytes, while `workers` share windows of `rows` patches along the
/// first axis and 16 x 32 along the others.
uint64_t peak_memory(const fs::path& folder, int workers, int64_t rows) {
  const json recipe = {{"name", "window"},
                       {"data",
                        {{"volumes", {{{"uri", "survey.mdio"}}}},
                         {"window", {rows * kPatch, 64, 128}},
                         {"tile_rows", 8},
                         {"validation_fraction", 0},
                         {"prefetch_bytes", "32MiB"}}},
                       {"model",
                        {{"kind", "sfm"},
                         {"patch", {kPatch, kPatch, kPatch}},
                         {"mask_ratio", 0.9},
                         {"dim", 64},
                         {"depth", 2},
                         {"heads", 1},
                         {"decoder_dim", 64},
                         {"decoder_depth", 2},
                         {"decoder_heads", 1},
                         {"decoder_attention", "window"},
                         {"decoder_window", {1, 8, 8}}}},
                       {"train",
                        {{"steps", 2},
                         {"global_batch", 1},
                         {"micro_batch", 1},
                         {"activation_checkpointing", true},
                         {"validate_every", 0}}},
                       {"parallel",
                        {{"workers", workers},
                         {"max_workers", workers},
                         {"context", workers},
                         {"strategy", "zero3"}}},
                       {"checkpoint", {{"every", 0}, {"resume", "none"}}}};
  const JobMemory memory(folder, std::chrono::milliseconds(100));
  train(recipe, folder);
  return memory.most_of_a_process();
}

}  // namespace

void add_largest_window(Table& table) {
  const runtime::TemporaryDirectory folder;
  run_in(folder.path(),
         {craton_program(), "volume", "synth", "survey.mdio", "--shape",
          fmt::format("{},64,128", kWorkers * kRows * kPatch), "--chunks", "8,64,128"});
  const uint64_t most = peak_memory(folder.path(), 1, kRows);
  // Of one of the eight: the most that fit, and the fewest that do not. Memory grows with them.
  int64_t fit = 0, beyond = kRows + 1;
  uint64_t memory = 0;
  for (int64_t rows = kRows; beyond - fit > 1;) {
    const uint64_t peak = peak_memory(folder.path(), kWorkers, kWorkers * rows);
    fmt::print(stderr, "{} workers, {} tokens: {:.1f} MiB a worker, against {:.1f}\n", kWorkers,
               kWorkers * rows * kRowTokens, static_cast<double>(peak) / kMiB,
               static_cast<double>(most) / kMiB);
    if (peak <= most) {
      fit = rows;
      memory = peak;
    } else {
      beyond = rows;
    }
    const double guess =
        static_cast<double>(rows) * static_cast<double>(most) / static_cast<double>(peak);
    rows = std::clamp(static_cast<int64_t>(guess), fit + 1, std::max(beyond - 1, fit + 1));
  }
  table.add_ratio("largest window, 8 workers against 1 with that memory", "tokens", Better::kHigher,
                  static_cast<double>(kWorkers * fit * kRowTokens),
                  static_cast<double>(kRows * kRowTokens), 7.5);
  table.add_absolute("  memory of a worker of 8", "MiB", Better::kLower,
                     static_cast<double>(memory) / kMiB, static_cast<double>(most) / kMiB);
}

void add_million_tokens(Table& table, const fs::path& survey) {
  if (!fs::exists(survey)) {
    run_in(fs::current_path(),
           {craton_program(), "volume", "synth", survey.string(), "--shape", "1536,1536,2048",
            "--chunks", "16,128,256", "--seed", "7"},
           pinned_kernels(), std::chrono::hours(1));
  }
  const runtime::TemporaryDirectory folder;
  const JobMemory memory(folder.path(), std::chrono::seconds(1));
  const auto begin = std::chrono::steady_clock::now();
  run_in(folder.path(),
         {craton_program(), "train", CRATON_SOURCE_DIR "/recipes/sfm-million-tokens.yaml",
          fmt::format("data.volumes=[{{uri: {}}}]", fs::absolute(survey).string())},
         pinned_kernels(), std::chrono::hours(3));
  const std::chrono::duration<double, std::ratio<60>> minutes =
      std::chrono::steady_clock::now() - begin;
  const auto steps = results::read_metrics(folder.path() / "runs/sfm-million-tokens/metrics.jsonl");
  fmt::print(stderr, "1,179,648 tokens: loss {}, step {:.0f} s\n", steps.at(0).loss,
             steps.at(0).seconds);
  table.add_absolute("1,179,648 tokens, 8 workers: a job of one step", "min", Better::kLower,
                     minutes.count(), 90);
  table.add_absolute("  memory of all its processes", "GiB", Better::kLower,
                     static_cast<double>(memory.most_in_all()) / kGiB, 20);
}

}  // namespace craton::bench
