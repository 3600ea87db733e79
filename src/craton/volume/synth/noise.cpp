#include "craton/volume/synth/noise.h"

#include <algorithm>
#include <array>
#include <vector>

#include "craton/base/philox.h"
#include "craton/volume/nearly_normal.h"
#include "craton/volume/synth/portable_math.h"

namespace craton::volume::synth {
namespace {

enum Stream : uint64_t {
  kWhite = 30,
  kTrain = 31,
  kGain = 32,
  kSingle = 33,
  kHole = 34,
  kLine = 35
};

uint64_t pack(int64_t u, int64_t v) {
  return static_cast<uint64_t>(v) << 32 | static_cast<uint64_t>(u);
}

// Smooths white noise to the band of the signal; unit energy. Reaches kHalf samples to either side.
constexpr int64_t kHalf = 3;
constexpr std::array<float, 2 * kHalf + 1> kBand = {-0.1640f, -0.0820f, 0.4921f, 0.6726f,
                                                    0.4921f,  -0.0820f, -0.1640f};

}  // namespace

void white_noise(uint64_t seed, int64_t u, int64_t v, int64_t first, std::span<float> out) {
  const Philox random(seed, RandomPurpose::kSynth, pack(u, v), kWhite);
  std::array<float, 2> pair{};
  uint64_t held = ~uint64_t{0};
  for (size_t n = 0; n < out.size(); ++n) {
    const auto sample = static_cast<uint64_t>(first + static_cast<int64_t>(n));
    if (sample / 2 != held) {
      held = sample / 2;
      pair = nearly_normal(random.block(held));
    }
    out[n] = pair[sample % 2];
  }
}

Noise::Noise(uint64_t seed, double level) : seed_(seed), level_(level) {}

float Noise::trace_gain(int64_t u, int64_t v) const {
  const Philox trace(seed_, RandomPurpose::kSynth, pack(u, v), kGain);
  const Philox line(seed_, RandomPurpose::kSynth, static_cast<uint64_t>(v), kLine);
  const double spread = std::min(level_, 1.0);
  return static_cast<float>(
      1 + spread * (0.3 * (trace.uniform(0) - 0.5) + 0.2 * (line.uniform(0) - 0.5)));
}

void Noise::add(std::span<float> trace, int64_t u, int64_t v, int64_t first,
                const WaveletTable& wavelets, double frequency) const {
  if (level_ <= 0) return;
  const auto count = static_cast<int64_t>(trace.size());
  thread_local std::vector<float> white;
  white.resize(static_cast<size_t>(count + 2 * kHalf));
  // The stream is displaced by kHalf so that sample numbers stay positive.
  white_noise(seed_, u, v, first, white);
  const auto level = static_cast<float>(0.75 * level_);
  for (int64_t n = 0; n < count; ++n) {
    float sum = 0;
    for (int64_t k = 0; k <= 2 * kHalf; ++k) {
      sum += kBand[static_cast<size_t>(k)] * white[static_cast<size_t>(n + k)];
    }
    trace[static_cast<size_t>(n)] += level * sum;
  }
  for (uint32_t train = 0; train < 3; ++train) {
    const Philox random(seed_, RandomPurpose::kSynth, kTrain, train);
    const double slope = (random.uniform(0) < 0.5f ? -1 : 1) * (0.5 + 1.2 * random.uniform(1));
    const double slant = random.uniform(2) - 0.5;
    const double period = (0.9 + 0.8 * random.uniform(3)) / frequency;
    const double start = slope * static_cast<double>(u) + slant * static_cast<double>(v);
    const auto low = static_cast<int64_t>(
        floor_of((static_cast<double>(first - wavelets.reach()) - start) / period));
    const auto high = static_cast<int64_t>(
        floor_of((static_cast<double>(first + count + wavelets.reach()) - start) / period));
    for (int64_t k = low; k <= high; ++k) {
      // Trains fade in and out along and across themselves.
      const double swell =
          sine_of_turns(0.0071 * static_cast<double>(u) + 0.37 * train) *
          sine_of_turns(0.083 * static_cast<double>(k) + 0.004 * static_cast<double>(v));
      const double depth = start + period * static_cast<double>(k);
      wavelets.add(trace, first, depth, frequency,
                   static_cast<float>(0.85 * level_ * (swell > 0 ? swell : 0)));
    }
  }
}

DeadTraces::DeadTraces(uint64_t seed, double share, bool line) : seed_(seed), line_(line) {
  // One hole at most per cell of 24 x 24 traces (24 on a line): mean area of a disk of radius 2..6
  // is 54.5 traces, mean chord 8.
  const double filled = line ? 8.0 / 24 : 54.5 / 576;
  hole_ = std::min(1.0, 0.5 * share / filled);
  single_ = (share - hole_ * filled) / (1 - hole_ * filled);
}

bool DeadTraces::dead(int64_t u, int64_t v) const {
  const Philox single(seed_, RandomPurpose::kSynth, pack(u, v), kSingle);
  if (single.uniform(0) < single_) return true;
  const Philox hole(seed_, RandomPurpose::kSynth, pack(u / 24, line_ ? 0 : v / 24), kHole);
  if (hole.uniform(0) >= hole_) return false;
  const double radius = 2 + 4 * hole.uniform(1);
  const double cu = 6 + 12 * hole.uniform(2), cv = 6 + 12 * hole.uniform(3);
  const double du = static_cast<double>(u % 24) - cu;
  const double dv = line_ ? 0 : static_cast<double>(v % 24) - cv;
  return du * du + dv * dv < radius * radius;
}

}  // namespace craton::volume::synth
