#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "craton/volume/volume.h"

namespace craton::volume::synth {

struct GeologyOptions {
  std::vector<int64_t> shape;  ///< [inline, crossline, samples] or [cdp, samples]; each 8 .. 2^20
  uint64_t seed = 0;
  double dead = 0.01;  ///< share of dead traces, half of them in holes; [0, 0.9]
  double noise =
      0.15;  ///< random and coherent noise against the signal's typical amplitude; [0, 10]
  double sample_interval_ms = 4;
};

/// A synthetic survey: two sequences of layers of varying thickness and reflectivity, the lower one
/// folded and cut by an unconformity; faults that die out; meandering channels; a salt body with
/// its drag; a sea floor and its multiples; a wavelet whose frequency falls with depth; linear and
/// random noise; dead traces. Amplitudes are about 1.
///
/// Every sample is a pure function of its coordinates and the options, made without the system's
/// transcendental functions: any block can be made alone, on any thread and machine, with the same
/// bits. Thread-safe.
class SyntheticGeology {
 public:
  /// Error kInvalidArgument names the option that is out of range.
  explicit SyntheticGeology(GeologyOptions options);
  ~SyntheticGeology();
  SyntheticGeology(const SyntheticGeology&) = delete;
  SyntheticGeology& operator=(const SyntheticGeology&) = delete;

  const GeologyOptions& options() const;

  /// inline from 1000, crossline from 2000 (cdp from 1), time from 0 in steps of the sample
  /// interval.
  std::vector<Axis> axes() const;

  /// Fills `out` (C order) with the block at `origin`, and `live` with one byte per trace. Dead
  /// traces are 0. Costs least when a block spans all samples, since the horizons of a trace are
  /// found once.
  void generate(std::span<const int64_t> origin, std::span<const int64_t> shape,
                std::span<float> out, std::span<uint8_t> live) const;

 private:
  struct Model;
  std::unique_ptr<const Model> model_;
};

}  // namespace craton::volume::synth
