#pragma once

#include <cstdint>
#include <span>

#include "craton/volume/synth/wavelet.h"

namespace craton::volume::synth {

/// Standard normal, nearly (a sum of four 16-bit uniforms, so integer arithmetic alone): samples
/// [first, first + out.size()) of the stream of one trace.
void white_noise(uint64_t seed, int64_t u, int64_t v, int64_t first, std::span<float> out);

/// Adds band-limited random noise and dipping linear trains, the kind that stacking leaves, to one
/// trace.
class Noise {
 public:
  Noise(uint64_t seed, double level);
  /// `trace` starts at sample `first`; `frequency` of the trains in cycles per sample.
  void add(std::span<float> trace, int64_t u, int64_t v, int64_t first,
           const WaveletTable& wavelets, double frequency) const;
  /// Small differences of amplitude from trace to trace and line to line, about 1.
  float trace_gain(int64_t u, int64_t v) const;

 private:
  uint64_t seed_;
  double level_;
};

/// Which traces are dead: single ones anywhere, and holes (a platform, a lake), half and half.
class DeadTraces {
 public:
  DeadTraces(uint64_t seed, double share, bool line);
  bool dead(int64_t u, int64_t v) const;

 private:
  uint64_t seed_;
  double single_, hole_;
  bool line_;
};

}  // namespace craton::volume::synth
