#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "craton/volume/synth/geology.h"

namespace craton::volume::synth {

struct WriteOptions {
  std::vector<int64_t> chunk_shape;  ///< empty: default_chunk_shape
  size_t threads = 1;
  bool replace = false;
  /// Called with the samples done so far, from any thread, never from two at once.
  std::function<void(int64_t done)> progress;
  const std::atomic<bool>* cancel = nullptr;  ///< set: ends with Error kCancelled, nothing is left
};

/// Streams the whole survey into an MDIO store at `uri`; holds at most about 64 MiB per thread, so
/// the survey may be larger than memory. Nothing is visible at `uri` before the end.
void write_synthetic_volume(std::string_view uri, const SyntheticGeology& geology,
                            const WriteOptions& options);

}  // namespace craton::volume::synth
