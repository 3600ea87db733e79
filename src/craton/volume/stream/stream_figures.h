#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "craton/store/http/dispatcher.h"

namespace craton::volume {

/// What reading windows moved and took. Plain numbers: workers leave them in shared memory, and
/// those of several workers are added.
struct StreamFigures {
  double seconds = 0;  ///< of the measurement; the longest of all workers
  double seconds_to_first_window = 0;
  uint64_t windows = 0, window_bytes = 0;
  uint64_t chunks = 0, decoded_bytes = 0;
  uint64_t raw_bytes = 0;  ///< that the store gave
  uint64_t requests = 0, retries = 0, slow_downs = 0;
  double processor_seconds = 0;
  double seconds_to_first_byte = 0, seconds_of_bodies = 0;  ///< of all requests
  std::array<uint64_t, 128> latencies{};
  uint64_t cache_hits = 0, cache_misses = 0;
  uint64_t budget_bytes = 0, held_bytes = 0;  ///< of the loaders; the most that was held
  uint64_t resident_bytes = 0;                ///< of the processes, at most
  double seconds_without_room = 0;            ///< threads waited for room in the budget

  void add(const StreamFigures& other);
  double latency_quantile(double share) const;
};

/// The part of the way that set the pace.
struct StreamLimit {
  std::string name;    ///< "server", "network", "decode" or "memory"
  std::string reason;  ///< the figures that say so
};

/// Pure. In this order: a server that asked for fewer requests is the limit; then processors that
/// are busy for most of the time; then threads that waited for room; then whatever requests spend
/// their time on: waiting for the first byte (server) or for the rest (network).
StreamLimit limit_of(const StreamFigures& figures, size_t cores, size_t threads);

}  // namespace craton::volume
