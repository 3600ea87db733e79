#include "craton/volume/stream/stream_reader.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "craton/runtime/memory.h"
#include "craton/store/cache/cached_store.h"
#include "craton/volume/sampling/loader.h"
#include "craton/volume/stream/metered_store.h"

namespace craton::volume {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kWindowsAhead = 64;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double processor_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

std::vector<int64_t> window_of(const StreamOptions& options, const VolumeInfo& info) {
  if (!options.window.empty()) return options.window;
  const auto shape = info.shape();
  std::vector<int64_t> out =
      shape.size() >= 3 ? std::vector<int64_t>{64, 128, 128} : std::vector<int64_t>{256, 256};
  for (size_t d = 0; d < out.size(); ++d)
    out[d] = std::min(out[d], shape[shape.size() - out.size() + d]);
  return out;
}

}  // namespace

StreamFigures read_stream(const StreamOptions& options) {
  const auto begun = Clock::now();
  const auto dispatcher = store::http::Dispatcher::shared();
  const auto metered = std::make_shared<MeteredStore>(store::open_store(options.uri));
  std::shared_ptr<store::ObjectStore> store = metered;
  if (options.cache.cache) store = std::make_shared<store::CachedStore>(metered, options.cache);
  const auto volume = open_volume(store, options.variable);
  SamplerSettings settings;
  settings.window = window_of(options, volume->info());
  settings.seed = 1;
  settings.validation_fraction = 0;
  settings.working_set_bytes = options.working_set_bytes;
  settings.augmentation = {.flip = false, .gain = 0};
  const auto sampler =
      std::make_shared<WindowSampler>(std::vector<SampledVolume>{{volume}}, settings);
  WindowLoader loader(sampler, {options.threads, options.budget_bytes});

  uint64_t chunk_bytes = sizeof(float);
  for (const int64_t n : volume->info().chunk_shape) chunk_bytes *= static_cast<uint64_t>(n);
  std::vector<float> window(static_cast<size_t>(sampler->largest_window()));
  const int64_t last =
      options.seconds > 0 ? std::numeric_limits<int64_t>::max() : sampler->windows_per_pass(0, 0);
  StreamFigures figures;
  const auto start = Clock::now();
  const double processor_before = processor_seconds();
  const store::http::TrafficCounters before = dispatcher->counters();
  const uint64_t reads_before = metered->reads(), bytes_before = metered->bytes();
  int64_t number = options.worker;
  for (int64_t taken = 0; number < last; number += options.workers, ++taken) {
    if (taken % (kWindowsAhead / 2) == 0) {
      std::vector<int64_t> future;
      for (int64_t k = 0; k < kWindowsAhead && number + k * options.workers < last; ++k)
        future.push_back(number + k * options.workers);
      loader.expect(future);
    }
    loader.take(number, window);
    if (taken == 0) figures.seconds_to_first_window = seconds_since(begun);
    ++figures.windows;
    figures.window_bytes += window.size() * sizeof(float);
    if (options.seconds > 0 && seconds_since(start) >= options.seconds) break;
  }
  figures.seconds = seconds_since(start);
  figures.processor_seconds = processor_seconds() - processor_before;
  const LoaderMetrics metrics = loader.metrics();
  figures.chunks = static_cast<uint64_t>(metrics.chunks_fetched);
  figures.decoded_bytes = figures.chunks * chunk_bytes;
  figures.raw_bytes = metered->bytes() - bytes_before;
  const auto traffic = dispatcher->counters().since(before);
  figures.requests = traffic.requests > 0 ? traffic.requests : metered->reads() - reads_before;
  figures.retries = traffic.retries;
  figures.slow_downs = traffic.slow_downs;
  figures.latencies = traffic.latencies;
  figures.seconds_to_first_byte = traffic.seconds_to_first_byte;
  figures.seconds_of_bodies = traffic.seconds_of_bodies;
  if (options.cache.cache) {
    const auto counters = options.cache.cache->counters();
    figures.cache_hits = counters.hits;
    figures.cache_misses = counters.misses;
  }
  figures.budget_bytes = options.budget_bytes;
  figures.held_bytes = metrics.peak_bytes;
  figures.resident_bytes = runtime::peak_resident_memory();
  figures.seconds_without_room = metrics.seconds_without_room;
  return figures;
}

}  // namespace craton::volume
