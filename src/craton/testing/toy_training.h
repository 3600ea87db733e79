#pragma once

#include <cstdint>
#include <vector>

namespace craton::testing {

/// Training on integers with the data flow of the real thing: the state after a step depends on
/// every micro-batch's gradient, on all parameters before it, and on a global norm. So a lost,
/// repeated or stale contribution changes all later states.
struct ToyTraining {
  uint64_t seed = 1;
  int shards = 1;

  using Values = std::vector<uint64_t>;  // by shard

  Values initial() const;
  /// Gradient of one micro-batch, counted over all steps, for one shard, from the parameters of all
  /// shards after step - 1.
  uint64_t gradient(const Values& parameters, int64_t step, int64_t micro_batch, int shard) const;
  static double norm_part(uint64_t gradient) { return static_cast<double>(gradient % 1000); }
  /// Every few steps overflow, and are skipped.
  static bool finite(double norm) { return static_cast<int64_t>(norm) % 5 != 0; }
  static uint64_t apply(uint64_t value, uint64_t gradient, double norm, bool finite);

  /// After a step of an undisturbed run; and what the next one begins with.
  struct State {
    Values values;
    double norm = 0;       ///< of the step
    int64_t position = 0;  ///< micro-batches that the steps up to it have used
  };
  State start() const { return {initial()}; }
  State after(const State& before, int64_t step, int micro_batches) const;
};

uint64_t mix(uint64_t a, uint64_t b);

}  // namespace craton::testing
