#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "craton/volume/sampling/sampler.h"

namespace craton::volume {

struct LoaderSettings {
  size_t threads = 1;                   ///< that fetch, decode and assemble beside the caller
  uint64_t budget_bytes = 1024u << 20;  ///< chunks, encoded and decoded, and finished windows
};

struct LoaderMetrics {
  double seconds_waited =
      0;  ///< callers of take and take_validation were not served from a finished window
  int64_t windows_ready = 0;     ///< served at once
  int64_t windows_late = 0;      ///< waited for, or assembled by the caller
  int64_t windows_finished = 0;  ///< ready to be taken now
  int64_t chunks_fetched = 0;
  int64_t chunk_hits = 0;           ///< chunks found in the cache
  double seconds_without_room = 0;  ///< threads waited for room for a chunk
  uint64_t bytes_held = 0;
  uint64_t peak_bytes = 0;  ///< never over the budget
};

/// Turns the sampler's windows into normalised, augmented floats, ahead of time. The bits of a
/// window depend on the sampler and its number alone. Chunks of the windows to come are fetched
/// many at a time, as far ahead as half of the chunks' room. All calls are thread-safe. Holds
/// decoded chunks (least recently used ones go first) and finished windows within the budget. A
/// read error is thrown by the `take` of the window that needs it, and again by the next one:
/// nothing is skipped.
class WindowLoader {
 public:
  /// Error when the budget cannot hold two chunks and a window per thread.
  WindowLoader(std::shared_ptr<const WindowSampler> sampler, LoaderSettings settings);
  /// Stops the threads; waits for reads in progress.
  ~WindowLoader();
  WindowLoader(const WindowLoader&) = delete;
  WindowLoader& operator=(const WindowLoader&) = delete;

  const WindowSampler& sampler() const;

  /// The samples that will be taken next, in this order; replaces what was said before. Finished
  /// windows that are still on the list are kept, the others are dropped. The list may be longer
  /// than the budget: work stops at the budget and goes on as windows are taken.
  void expect(const std::vector<int64_t>& sample_numbers);

  /// Fills `out` (locate(sample_number).elements() floats, C order of the window's axes). Blocks
  /// until the window is there; a window that nobody works on is assembled by the caller.
  void take(int64_t sample_number, std::span<float> out);

  /// Validation window `index`, without augmentation.
  void take_validation(int64_t index, std::span<float> out);
  /// Any window or slab, now.
  void assemble(const WindowSpec& spec, std::span<float> out);

  LoaderMetrics metrics() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace craton::volume
