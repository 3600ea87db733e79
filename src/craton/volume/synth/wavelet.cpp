#include "craton/volume/synth/wavelet.h"

#include <algorithm>

#include "craton/volume/synth/portable_math.h"

namespace craton::volume::synth {
namespace {

constexpr double kPi = 3.14159265358979323846;

// Ricker wavelet and, for the phase rotation, its first-derivative sibling of about equal energy.
double rotated_ricker(double x, double frequency, double phase_turns) {
  const double a = kPi * frequency * x;
  const double bell = exponential(-a * a);
  const double even = (1 - 2 * a * a) * bell;
  const double odd = -1.6 * a * bell;
  return cosine_of_turns(phase_turns) * even + sine_of_turns(phase_turns) * odd;
}

}  // namespace

WaveletTable::WaveletTable(double low, double high, double phase_turns) : low_(low), high_(high) {
  entries_.reserve(kFrequencies * kShifts);
  for (int f = 0; f < kFrequencies; ++f) {
    const double frequency = low + (high - low) * f / (kFrequencies - 1);
    const int64_t reach = static_cast<int64_t>(1.1 / frequency) + 1;
    reach_ = std::max(reach_, reach + 1);
    for (int s = 0; s < kShifts; ++s) {
      entries_.push_back({reach, samples_.size()});
      for (int64_t n = -reach; n <= reach + 1; ++n) {
        const double x = static_cast<double>(n) - static_cast<double>(s) / kShifts;
        samples_.push_back(static_cast<float>(rotated_ricker(x, frequency, phase_turns)));
      }
    }
  }
}

void WaveletTable::add(std::span<float> trace, int64_t first, double depth, double frequency,
                       float amplitude) const {
  const double position = (frequency - low_) / (high_ - low_) * (kFrequencies - 1) + 0.5;
  const int f = std::clamp(static_cast<int>(position), 0, kFrequencies - 1);
  const double whole = floor_of(depth);
  const int s = std::min(static_cast<int>((depth - whole) * kShifts), kShifts - 1);
  const Entry& entry = entries_[static_cast<size_t>(f * kShifts + s)];
  const int64_t start = static_cast<int64_t>(whole) - entry.reach - first;  // in the trace
  const int64_t begin = std::max<int64_t>(start, 0);
  const int64_t end =
      std::min<int64_t>(start + 2 * entry.reach + 2, static_cast<int64_t>(trace.size()));
  if (begin >= end) return;
  const float* wavelet = samples_.data() + entry.offset + (begin - start);
  float* out = trace.data() + begin;
  for (int64_t n = 0; n < end - begin; ++n) out[n] += amplitude * wavelet[n];
}

}  // namespace craton::volume::synth
