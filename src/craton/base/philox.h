#pragma once

#include <array>
#include <cstdint>

namespace craton {

/// Purposes of random numbers. A number is a function of (seed, purpose, a, b, index) and of nothing else: not of rank, order or time.
/// Values are part of the results of every run: add at the end, never renumber.
enum class RandomPurpose : uint32_t {
  kInit = 1,          ///< parameter initialisation: a = parameter number
  kSampleOrder = 2,   ///< shuffling of chunks and windows: a = pass
  kSamplePlace = 3,   ///< origin of a window: a = sample number
  kAugment = 4,       ///< flips, gain: a = sample number
  kAugmentNoise = 5,  ///< noise: a = sample number
  kMask = 6,          ///< mask of the autoencoder: a = sample number
  kDropout = 7,       ///< a = step, b = micro-batch
  kSynth = 8,         ///< synthetic geology
  kRetry = 9,         ///< jitter of retries (does not reach results)
  kTest = 10,
};

/// Counter-based generator Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
/// Stateless: any element of any stream is computed directly.
class Philox {
 public:
  Philox(uint64_t seed, RandomPurpose purpose, uint64_t a = 0, uint32_t b = 0);

  /// Four 32-bit words of block `index`.
  std::array<uint32_t, 4> block(uint64_t index) const;

  /// Word `index` of the stream (block index / 4).
  uint32_t bits(uint64_t index) const { return block(index / 4)[index % 4]; }

  /// Uniform in [0, 1) with 24 bits.
  float uniform(uint64_t index) const { return static_cast<float>(bits(index) >> 8) * 0x1p-24f; }

  /// Uniform integer in [0, bound); bound > 0. Bias below 2^-32 * bound (128-bit multiply of 64 random bits for bounds over 32 bits).
  uint64_t below(uint64_t index, uint64_t bound) const;

  /// Standard normal by Box-Muller in double precision (uses block `index`; independent of `uniform` of other blocks only).
  double normal(uint64_t index) const;

 private:
  std::array<uint32_t, 2> key_;
  std::array<uint32_t, 2> high_;  // upper half of the counter
};

}  // namespace craton
