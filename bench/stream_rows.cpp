#include "stream_rows.h"

#include <fmt/ranges.h>

#include <chrono>
#include <cstdlib>

#include "bench_job.h"
#include "craton/base/error.h"
#include "craton/runtime/thread_pool.h"
#include "craton/volume/sampling/loader.h"
#include "craton/volume/synth/write.h"
#include "tests/servers/delay_proxy.h"

namespace craton::bench {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

const std::vector<int64_t> kShape = {256, 384, 512}, kWindow = {64, 128, 128};
constexpr uint64_t kWorkingSet = 128u << 20, kBudget = 512u << 20;

}  // namespace

/// Zarr v2 is what python3-zarr reads; the samples of both are the same.
void make_volumes(const fs::path& root) {
  if (fs::exists(root / "sharded")) return;
  volume::synth::GeologyOptions geology;
  geology.shape = kShape;
  geology.dead = 0;
  const volume::synth::SyntheticGeology survey(geology);
  const std::vector<int64_t> chunk = {64, 64, 64};
  for (const bool sharded : {false, true}) {
    volume::VolumeSpec spec;
    spec.name = "PostStack3DTime";
    spec.axes = survey.axes();
    spec.chunk_shape = chunk;
    spec.zarr_format = sharded ? 3 : 2;
    if (sharded) spec.shard_shape = {128, 128, 512};
    auto writer = volume::create_volume((root / (sharded ? "sharded" : "plain")).string(), spec);
    const int64_t rows = kShape[0] / 64, columns = kShape[1] / 64, deep = kShape[2] / 64;
    runtime::parallel_for(
        static_cast<size_t>(rows * columns), runtime::available_cores(), [&](size_t n) {
          const int64_t i = static_cast<int64_t>(n) / columns,
                        j = static_cast<int64_t>(n) % columns;
          const std::vector<int64_t> origin = {i * 64, j * 64, 0}, block = {64, 64, kShape[2]};
          std::vector<float> column(static_cast<size_t>(64 * 64 * kShape[2])),
              samples(64 * 64 * 64);
          std::vector<uint8_t> live(64 * 64);
          survey.generate(origin, block, column, live);
          for (int64_t k = 0; k < deep; ++k) {
            for (size_t t = 0; t < 64 * 64; ++t)
              std::copy_n(column.begin() + static_cast<ptrdiff_t>(t) * kShape[2] + k * 64, 64,
                          samples.begin() + static_cast<ptrdiff_t>(t) * 64);
            writer->write_chunk(std::vector<int64_t>{i, j, k}, samples, live);
          }
        });
    writer->finish();
  }
}

namespace {

uint64_t bytes_below(const fs::path& folder) {
  uint64_t out = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) out += entry.file_size();
  return out;
}

std::shared_ptr<const volume::WindowSampler> sampler_of(const std::string& uri) {
  volume::SamplerSettings settings;
  settings.window = kWindow;
  settings.seed = 1;
  settings.validation_fraction = 0;
  settings.working_set_bytes = kWorkingSet;
  settings.augmentation = {.flip = false, .gain = 0};
  return std::make_shared<volume::WindowSampler>(
      std::vector<volume::SampledVolume>{{volume::open_volume(uri)}}, settings);
}

/// All windows of a pass on this thread and the loader's; seconds.
double take_pass(const std::string& uri, size_t threads) {
  const auto sampler = sampler_of(uri);
  volume::WindowLoader loader(sampler, {.threads = threads, .budget_bytes = kBudget});
  std::vector<float> window(static_cast<size_t>(sampler->largest_window()));
  const int64_t count = sampler->windows_per_pass(0, 0);
  const auto start = Clock::now();
  for (int64_t n = 0; n < count; ++n) {
    if (n % 16 == 0) {
      std::vector<int64_t> future;
      for (int64_t k = n; k < std::min(count, n + 32); ++k) future.push_back(k);
      loader.expect(future);
    }
    loader.take(n, window);
  }
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void add_zarr_row(Table& table, const fs::path& store, int rounds) {
  const auto sampler = sampler_of(store);
  const int64_t count = sampler->windows_per_pass(0, 0);
  const runtime::TemporaryDirectory folder;
  std::string lines;
  for (int64_t n = 0; n < count; ++n) {
    const auto w = sampler->locate(n);
    lines += fmt::format("{} {}\n", fmt::join(w.origin, " "), fmt::join(w.shape, " "));
  }
  runtime::write_file_atomically(folder.path() / "windows", lines);
  std::vector<double> ours, theirs;
  for (int r = 0; r < rounds; ++r) {
    ours.push_back(static_cast<double>(count) / take_pass(store, runtime::available_cores()));
    const auto peer = runtime::run_program(
        {"/usr/bin/python3", std::string(CRATON_SOURCE_DIR) + "/bench/peers/windows_zarr.py", store,
         "amplitude", folder.path() / "windows"});
    if (peer.exit_code == 3) return;
    if (peer.exit_code != 0) throw std::runtime_error("windows_zarr.py: " + peer.errors);
    theirs.push_back(static_cast<double>(count) / std::atof(peer.output.c_str()));
  }
  table.add_ratio("windows of 64x128x128 in training order, against python3-zarr", "1/s",
                  Better::kHigher, median(ours), median(theirs), 5);
}

}  // namespace

nlohmann::json bench_stream(const std::vector<std::string>& arguments,
                            const std::vector<std::string>& environment) {
  const runtime::TemporaryDirectory folder;
  const std::string json = folder.path() / "figures.json";
  std::vector<std::string> command = {craton_program(), "bench", "stream", "--json", json};
  command.insert(command.end(), arguments.begin(), arguments.end());
  runtime::ProgramOptions options;
  options.environment = environment;
  const auto result = runtime::run_program(command, options);
  if (result.exit_code != 0) throw std::runtime_error("craton bench stream: " + result.errors);
  return nlohmann::json::parse(runtime::read_text(json));
}

namespace {

void add_pass_rows(Table& table, const Nginx& nginx) {
  for (const char* name : {"plain", "sharded"}) {
    const auto figures = bench_stream(
        {nginx.origin() + "/" + name, "--seconds", "0", "--threads", "2", "--budget", "512MiB"});
    const double stored = static_cast<double>(bytes_below(nginx.root() / name / "amplitude"));
    table.add_absolute(fmt::format("bytes fetched in a pass over those stored, {} chunks", name),
                       "", Better::kLower, figures["raw_bytes"].get<double>() / stored, 1.1);
  }
}

void add_memory_rows(Table& table, const Nginx& nginx) {
  for (const int workers : {1, 32}) {
    const auto figures =
        bench_stream({nginx.origin() + "/plain", "--seconds", "5", "--workers",
                      std::to_string(workers), "--budget", "64MiB", "--window", "32,64,64"});
    table.add_absolute(
        fmt::format("memory held over the budget, {} readers", workers), "", Better::kLower,
        figures["held_bytes"].get<double>() / figures["budget_bytes"].get<double>(), 1);
    table.add_absolute(
        fmt::format("resident memory over the budget and 40 MiB a reader, {} readers", workers), "",
        Better::kLower,
        figures["resident_bytes"].get<double>() /
            (figures["budget_bytes"].get<double>() + workers * 40.0 * (1 << 20)),
        1);
  }
}

/// The cache is filled by one reader; then one that starts anew in the same job is ready as soon as
/// it has its first window.
void add_warm_rows(Table& table, const Nginx& nginx, int rounds) {
  const tests::DelayProxy proxy(nginx.port(), std::chrono::milliseconds(10));
  const std::string started = fmt::format("CRATON_JOB_STARTED_MS={}",
                                          std::chrono::duration_cast<std::chrono::milliseconds>(
                                              std::chrono::system_clock::now().time_since_epoch())
                                              .count());
  for (const char* form : {"stored", "lz4", "decoded"}) {
    std::vector<double> cold, warm;
    for (int r = 0; r < rounds; ++r) {
      const runtime::TemporaryDirectory cache;
      const std::vector<std::string> arguments = {proxy.url() + "/plain",
                                                  "--seconds",
                                                  "1",
                                                  "--cache",
                                                  cache.path(),
                                                  "--cache-format",
                                                  form,
                                                  "--threads",
                                                  "2",
                                                  "--budget",
                                                  "512MiB"};
      cold.push_back(bench_stream(arguments, {started})["seconds_to_first_window"].get<double>());
      warm.push_back(bench_stream(arguments, {started})["seconds_to_first_window"].get<double>());
    }
    table.add_ratio(
        fmt::format("first window of a replacement, cache {}, against a cold start", form), "s",
        Better::kLower, median(warm), median(cold), 5);
  }
}

}  // namespace

void add_stream_rows(Table& table, const Nginx& nginx, int rounds) {
  make_volumes(nginx.root());
  add_zarr_row(table, nginx.root() / "plain", rounds);
  add_pass_rows(table, nginx);
  add_memory_rows(table, nginx);
  add_warm_rows(table, nginx, rounds);
}

}  // namespace craton::bench
