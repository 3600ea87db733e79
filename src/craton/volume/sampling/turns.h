#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace craton::volume {

/// Several sources take turns sample by sample in the proportion of their weights: in a period of
/// 4096 samples each has its exact share, in a shuffled order that is the same in all periods.
/// Pure: sample number -> (source, how many samples of it came before).
class Turns {
 public:
  static constexpr int64_t kPeriod = 4096;
  static constexpr size_t kMostSources = kPeriod / 4;

  Turns() = default;
  /// At least one weight, all of them positive, at most kMostSources.
  Turns(const std::vector<double>& weights, uint64_t seed);

  struct Turn {
    int32_t source = 0;
    int64_t index = 0;
  };
  Turn at(int64_t sample_number) const;
  /// Of the samples, after rounding to 1/4096.
  double share(int32_t source) const {
    return static_cast<double>(quotas_[static_cast<size_t>(source)]) / kPeriod;
  }

 private:
  std::vector<int64_t> quotas_;  // samples of each source in a period
  std::vector<Turn> turns_;      // of one period
};

}  // namespace craton::volume
