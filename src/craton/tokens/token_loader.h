#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "craton/tokens/token_sampler.h"

namespace craton::tokens {

struct TokenLoaderSettings {
  uint64_t budget_bytes = 1024u << 20;  ///< pages of files, those on their way included
  int64_t vocabulary = 0;               ///< tokens must lie below it; 0: any
};

struct TokenLoaderMetrics {
  double seconds_waited = 0;  ///< callers were not served from what was there
  int64_t pages_fetched = 0;
  uint64_t bytes_fetched = 0, bytes_held = 0, peak_bytes = 0;
};

/// Turns the sampler's windows into numbers, ahead of time. Files are read in pages, each a byte
/// range of its own, so that a node's cache keeps the same ranges in each pass. One thread fetches
/// the pages of windows to come, many at a time, as far ahead as half of the budget; the least
/// recently used pages go first. A read error is thrown by the `take` of the window that needs it.
/// All calls are thread-safe.
class TokenLoader {
 public:
  static constexpr uint64_t kPageBytes = 256 << 10;

  /// Error when the budget cannot hold two windows.
  TokenLoader(std::shared_ptr<const TokenSampler> sampler, TokenLoaderSettings settings);
  /// Stops the thread; waits for a read in progress.
  ~TokenLoader();
  TokenLoader(const TokenLoader&) = delete;
  TokenLoader& operator=(const TokenLoader&) = delete;

  /// The samples that will be taken next, in this order; replaces what was said before.
  void expect(const std::vector<int64_t>& sample_numbers);
  /// Fills `out` (sequence + 1 numbers); blocks until they are there.
  void take(int64_t sample_number, std::span<int64_t> out);
  void take_validation(int64_t index, std::span<int64_t> out);

  TokenLoaderMetrics metrics() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace craton::tokens
