#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "craton/app/cli/bench_verbs.h"
#include "craton/base/error.h"
#include "craton/base/units.h"
#include "craton/runtime/file.h"
#include "craton/runtime/thread_pool.h"
#include "craton/store/cache/cached_store.h"
#include "craton/volume/stream/stream_reader.h"

namespace craton::app {
namespace {

struct StreamArguments {
  volume::StreamOptions options;
  std::string budget = "1GiB", cache_path, cache_bytes = "16GiB", cache_format = "stored", json;
};

/// What a worker leaves.
struct WorkerReport {
  volume::StreamFigures figures;
  char error[500] = "";  ///< of a failure
};

/// Where the workers leave what they have measured.
class SharedReports {
 public:
  explicit SharedReports(size_t count) : bytes_(count * sizeof(WorkerReport)) {
    void* map = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) fail_errno("cannot map shared memory", errno);
    reports_ = static_cast<WorkerReport*>(map);
    for (size_t i = 0; i < count; ++i) new (reports_ + i) WorkerReport();
  }
  SharedReports(const SharedReports&) = delete;
  SharedReports& operator=(const SharedReports&) = delete;
  ~SharedReports() { ::munmap(reports_, bytes_); }
  WorkerReport& operator[](size_t i) { return reports_[i]; }

 private:
  size_t bytes_;
  WorkerReport* reports_;
};

/// One worker's life in its own process; its exit code.
int run_worker(const StreamArguments& arguments, int64_t worker, WorkerReport& report) {
  try {
    volume::StreamOptions options = arguments.options;
    options.worker = worker;
    if (!arguments.cache_path.empty()) {
      store::NodeCacheOptions cache{arguments.cache_path, parse_bytes(arguments.cache_bytes)};
      if (const char* started = std::getenv("CRATON_JOB_STARTED_MS"))
        cache.trusted_since = std::chrono::system_clock::time_point(
            std::chrono::milliseconds(std::strtoll(started, nullptr, 10)));
      options.cache.cache = store::NodeCache::open(cache);
      options.cache.form = arguments.cache_format == "decoded" ? store::CacheForm::kDecoded
                           : arguments.cache_format == "lz4"   ? store::CacheForm::kLz4
                                                               : store::CacheForm::kStored;
    }
    report.figures = volume::read_stream(options);
    return 0;
  } catch (const std::exception& e) {
    std::snprintf(report.error, sizeof(report.error), "%s", e.what());
    return 1;
  }
}

/// Before this process has any thread.
volume::StreamFigures run_workers(const StreamArguments& arguments) {
  const auto count = static_cast<size_t>(arguments.options.workers);
  SharedReports shared(count);
  std::vector<pid_t> children;
  std::fflush(nullptr);
  for (size_t i = 0; i < count; ++i) {
    const pid_t child = ::fork();
    if (child < 0) fail_errno("cannot start a worker", errno);
    if (child == 0) ::_exit(run_worker(arguments, static_cast<int64_t>(i), shared[i]));
    children.push_back(child);
  }
  size_t failed = 0;
  for (const pid_t child : children) {
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    failed += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
  }
  volume::StreamFigures sum;
  for (size_t i = 0; i < count; ++i) {
    if (shared[i].error[0] != '\0') fail(ErrorCode::kIo, "{}", shared[i].error);
    sum.add(shared[i].figures);
  }
  if (failed > 0) fail(ErrorCode::kIo, "{} of {} workers were killed", failed, count);
  return sum;
}

nlohmann::json to_json(const volume::StreamFigures& f, const volume::StreamLimit& limit) {
  const double gb = 1e-9 / f.seconds;
  const uint64_t asked = f.cache_hits + f.cache_misses;
  nlohmann::json out = {
      {"seconds", f.seconds},
      {"seconds_to_first_window", f.seconds_to_first_window},
      {"raw_gb_per_second", gb * static_cast<double>(f.raw_bytes)},
      {"decoded_gb_per_second", gb * static_cast<double>(f.decoded_bytes)},
      {"windows_per_second", static_cast<double>(f.windows) / f.seconds},
      {"window_gb_per_second", gb * static_cast<double>(f.window_bytes)},
      {"requests_per_second", static_cast<double>(f.requests) / f.seconds},
      {"latency_p50_seconds", f.latency_quantile(0.5)},
      {"latency_p99_seconds", f.latency_quantile(0.99)},
      {"retries", f.retries},
      {"processor_seconds_per_decoded_gb",
       f.decoded_bytes > 0 ? 1e9 * f.processor_seconds / static_cast<double>(f.decoded_bytes)
                           : 0.0},
      {"cache_hit_rate",
       asked > 0 ? nlohmann::json(static_cast<double>(f.cache_hits) / static_cast<double>(asked))
                 : nlohmann::json()},
      {"windows", f.windows},
      {"raw_bytes", f.raw_bytes},
      {"decoded_bytes", f.decoded_bytes},
      {"budget_bytes", f.budget_bytes},
      {"held_bytes", f.held_bytes},
      {"resident_bytes", f.resident_bytes},
      {"limit", limit.name},
      {"limit_reason", limit.reason}};
  return out;
}

void print(const StreamArguments& arguments, const nlohmann::json& figures) {
  const auto number = [&](const char* key) { return figures[key].get<double>(); };
  const auto line = [](const char* what, const std::string& value) {
    fmt::print("  {:<16} {}\n", what, value);
  };
  fmt::print("{}: {} worker{}, {:.1f} s\n",
             arguments.options.uri.substr(0, arguments.options.uri.find('?')),
             arguments.options.workers, arguments.options.workers == 1 ? "" : "s",
             number("seconds"));
  line("raw", fmt::format("{:.3f} GB/s from the store", number("raw_gb_per_second")));
  line("decoded", fmt::format("{:.3f} GB/s of chunks", number("decoded_gb_per_second")));
  line("windows", fmt::format("{:.1f} /s ({:.3f} GB/s), the first after {}",
                              number("windows_per_second"), number("window_gb_per_second"),
                              format_seconds(number("seconds_to_first_window"))));
  line("requests",
       fmt::format("{:.0f} /s, p50 {}, p99 {}, {} retries", number("requests_per_second"),
                   format_seconds(number("latency_p50_seconds")),
                   format_seconds(number("latency_p99_seconds")),
                   figures["retries"].get<uint64_t>()));
  line("processor",
       fmt::format("{:.2f} s per decoded GB", number("processor_seconds_per_decoded_gb")));
  line("cache", figures["cache_hit_rate"].is_null()
                    ? "none"
                    : fmt::format("{:.1f} % hits", 100 * number("cache_hit_rate")));
  line("memory",
       fmt::format("{} held of a budget of {}; {} resident", format_bytes(number("held_bytes")),
                   format_bytes(number("budget_bytes")), format_bytes(number("resident_bytes"))));
  line("limit", fmt::format("{}: {}", figures["limit"].get<std::string>(),
                            figures["limit_reason"].get<std::string>()));
}

void run_stream(StreamArguments& arguments) {
  arguments.options.budget_bytes = parse_bytes(arguments.budget);
  arguments.options.working_set_bytes = arguments.options.budget_bytes / 2;
  parse_bytes(arguments.cache_bytes);
  const volume::StreamFigures figures = run_workers(arguments);
  if (figures.windows == 0) fail(ErrorCode::kTimeout, "no window came within the time given");
  const auto limit =
      volume::limit_of(figures, runtime::available_cores(),
                       static_cast<size_t>(arguments.options.workers) * arguments.options.threads);
  const nlohmann::json json = to_json(figures, limit);
  print(arguments, json);
  if (!arguments.json.empty()) runtime::write_file_atomically(arguments.json, json.dump(2) + "\n");
}

}  // namespace

void add_bench_stream(CLI::App& bench) {
  auto arguments = std::make_shared<StreamArguments>();
  auto& o = arguments->options;
  CLI::App* verb = bench.add_subcommand(
      "stream", "Read windows of a volume in training order, and say what sets the pace");
  verb->footer(
      "Each worker is a process with its own budget, as in training; all share the cache.\n"
      "Examples:\n"
      "  craton bench stream s3://surveys/f3.mdio --workers 4 --seconds 20\n"
      "  craton bench stream s3://surveys/f3.mdio --cache /nvme/cache --cache-format decoded");
  verb->add_option("uri", o.uri, "A volume: a path or URI")->required();
  verb->add_option("--workers,-n", o.workers, "Reading processes")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  verb->add_option("--seconds,-s", o.seconds, "How long; 0: one pass over the volume")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  verb->add_option("--threads", o.threads, "Loader threads of a worker")
      ->check(CLI::Range(0, 256))
      ->capture_default_str();
  verb->add_option("--window", o.window, "Samples per axis (64,128,128, or 256,256 of a line)")
      ->delimiter(',');
  verb->add_option("--variable", o.variable, "An array other than the default one");
  verb->add_option("--budget", arguments->budget, "Memory of a worker")->capture_default_str();
  verb->add_option("--cache", arguments->cache_path, "Folder of the node's cache (none)");
  verb->add_option("--cache-bytes", arguments->cache_bytes, "Its size")->capture_default_str();
  verb->add_option("--cache-format", arguments->cache_format, "stored, decoded or lz4")
      ->check(CLI::IsMember({"stored", "decoded", "lz4"}))
      ->capture_default_str();
  verb->add_option("--json", arguments->json, "Write the figures to this file");
  verb->callback([arguments] { run_stream(*arguments); });
}

}  // namespace craton::app
