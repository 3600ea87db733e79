#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "craton/volume/volume.h"

namespace craton::volume::mdio {

/// Statistics over the live, nonzero, finite samples of a volume that arrives chunk by chunk, in
/// any order and from any thread. The result does not depend on the order: each chunk's sums are
/// kept and added in the order of chunk numbers.
class SampleStatistics {
 public:
  /// With `chunks_per_column` above 0, what `add` learns of each run of that many chunks is kept
  /// until `take_column`.
  explicit SampleStatistics(size_t chunks, size_t chunks_per_column = 0)
      : partials_(chunks), chunks_per_column_(chunks_per_column) {}

  /// `rows` of `row` samples; only the first `valid` of each count, and rows whose live flag is 0
  /// do not.
  struct Block {
    std::span<const float> samples;
    size_t row = 0, valid = 0;
    std::span<const uint8_t> counted;  ///< one per row
  };
  void add(size_t chunk, const Block& block);
  /// What was added to the chunks of a column, exactly: for `restore_column` of another process.
  nlohmann::json take_column(size_t column);
  /// kCorrupt for what no `take_column` gave.
  void restore_column(size_t column, const nlohmann::json& state);
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
  size_t chunks_per_column_ = 0;
  std::map<size_t, std::vector<int64_t>> open_columns_;  ///< buckets of what was not yet taken
  mutable std::mutex mutex_;
  std::vector<int64_t> buckets_ = std::vector<int64_t>(kBuckets, 0);
};

}  // namespace craton::volume::mdio
