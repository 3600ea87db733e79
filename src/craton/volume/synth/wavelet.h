#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace craton::volume::synth {

/// Ricker wavelets for a range of peak frequencies and sub-sample shifts, tabulated: adding a
/// reflection is one lookup and one vectorised loop. Rotated by a constant phase towards its
/// quadrature, since processed data are seldom exactly zero-phase.
class WaveletTable {
 public:
  /// Frequencies in cycles per sample, low < high < 0.5.
  WaveletTable(double low, double high, double phase_turns);

  /// Longest reach of a wavelet on either side of its centre, in samples.
  int64_t reach() const { return reach_; }

  /// Adds amplitude x wavelet centred at `depth` (samples, from the survey's top) to a trace whose
  /// first sample is `first`.
  void add(std::span<float> trace, int64_t first, double depth, double frequency,
           float amplitude) const;

 private:
  static constexpr int kFrequencies = 48;
  static constexpr int kShifts = 32;
  struct Entry {
    int64_t reach = 0;
    size_t offset = 0;  // of the sample at -reach
  };
  double low_, high_;
  int64_t reach_ = 0;
  std::vector<Entry> entries_;  // [kFrequencies][kShifts]
  std::vector<float> samples_;
};

}  // namespace craton::volume::synth
