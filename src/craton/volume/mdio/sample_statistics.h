#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "craton/volume/volume.h"

namespace craton::volume::mdio {

/// Statistics over the live, nonzero, finite samples of a volume that arrives chunk by chunk, in
/// any order and from any thread. The result does not depend on the order: each chunk's sums are
/// kept and added in the order of chunk numbers.
class SampleStatistics {
 public:
  explicit SampleStatistics(size_t chunks) : partials_(chunks) {}

  /// `rows` of `row` samples; only the first `valid` of each count, and rows whose live flag is 0
  /// do not.
  struct Block {
    std::span<const float> samples;
    size_t row = 0, valid = 0;
    std::span<const uint8_t> counted;  ///< one per row
  };
  void add(size_t chunk, const Block& block);
  Statistics total() const;

 private:
  struct Partial {
    int64_t count = 0;
    double sum = 0, sum_squares = 0;
    float min = 0, max = 0;
  };
  /// Buckets by the upper bits of a float: sign, exponent and 4 bits of fraction. About 6 % wide
  /// each.
  static constexpr int kBucketShift = 19;
  static constexpr size_t kBuckets = size_t{1} << (32 - kBucketShift);

  std::vector<Partial> partials_;
  mutable std::mutex mutex_;
  std::vector<int64_t> buckets_ = std::vector<int64_t>(kBuckets, 0);
};

}  // namespace craton::volume::mdio
