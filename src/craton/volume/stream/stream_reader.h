#pragma once

#include <string>
#include <vector>

#include "craton/store/cache/cache_policy.h"
#include "craton/volume/stream/stream_figures.h"

namespace craton::volume {

struct StreamOptions {
  std::string uri, variable;
  std::vector<int64_t> window;  ///< empty: 64 x 128 x 128, or 256 x 256, as far as the volume goes
  double seconds = 10;          ///< 0: one pass
  int64_t worker = 0, workers = 1;  ///< takes every workers-th window
  size_t threads = 1;
  uint64_t budget_bytes = 1024u << 20;
  uint64_t working_set_bytes = 512u << 20;
  store::CachePolicy cache;
};

/// Takes windows in training order, as fast as they come, and does nothing with them. Opening the
/// volume counts towards the first window, not towards the rates.
StreamFigures read_stream(const StreamOptions& options);

}  // namespace craton::volume
