#include "craton/volume/stream/stream_figures.h"

#include <fmt/format.h>

#include <algorithm>

#include "craton/base/units.h"

namespace craton::volume {

namespace {

constexpr double kBusy = 0.8;     ///< of the cores' time
constexpr double kBlocked = 0.3;  ///< of the threads' time

}  // namespace

void StreamFigures::add(const StreamFigures& other) {
  seconds = std::max(seconds, other.seconds);
  seconds_to_first_window = std::max(seconds_to_first_window, other.seconds_to_first_window);
  windows += other.windows;
  window_bytes += other.window_bytes;
  chunks += other.chunks;
  decoded_bytes += other.decoded_bytes;
  raw_bytes += other.raw_bytes;
  requests += other.requests;
  retries += other.retries;
  slow_downs += other.slow_downs;
  processor_seconds += other.processor_seconds;
  seconds_to_first_byte += other.seconds_to_first_byte;
  seconds_of_bodies += other.seconds_of_bodies;
  for (size_t b = 0; b < latencies.size(); ++b) latencies[b] += other.latencies[b];
  cache_hits += other.cache_hits;
  cache_misses += other.cache_misses;
  budget_bytes += other.budget_bytes;
  held_bytes += other.held_bytes;
  resident_bytes += other.resident_bytes;
  seconds_without_room += other.seconds_without_room;
}

double StreamFigures::latency_quantile(double share) const {
  store::http::TrafficCounters counters;
  counters.latencies = latencies;
  return counters.latency_quantile(share);
}

StreamLimit limit_of(const StreamFigures& f, size_t cores, size_t threads) {
  const double seconds = std::max(f.seconds, 1e-9);
  const double busy =
      f.processor_seconds / (seconds * static_cast<double>(std::max<size_t>(1, cores)));
  const double blocked =
      f.seconds_without_room / (seconds * static_cast<double>(std::max<size_t>(1, threads)));
  if (f.slow_downs > 0)
    return {"server", fmt::format("it answered \"slow down\" {} times", f.slow_downs)};
  if (busy >= kBusy)
    return {"decode", fmt::format("{:.0f} % of the {} cores' time was used", 100 * busy, cores)};
  if (blocked >= kBlocked)
    return {"memory", fmt::format("threads waited for room in the budget for {:.0f} % of the time",
                                  100 * blocked)};
  const double waited = f.seconds_to_first_byte + f.seconds_of_bodies;
  if (waited == 0)
    return {"decode", fmt::format("nothing was waited for; {:.0f} % of the {} cores' time was used",
                                  100 * busy, cores)};
  const double first = f.seconds_to_first_byte / waited;
  return {first >= 0.5 ? "server" : "network",
          fmt::format("{:.0f} % of a request's time went by before its first byte; p50 {}",
                      100 * first, format_seconds(f.latency_quantile(0.5)))};
}

}  // namespace craton::volume
