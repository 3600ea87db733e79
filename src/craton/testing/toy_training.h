#pragma once

#include <cstdint>
#include <vector>

namespace craton::testing {

/// Training on integers with the data flow of the real thing: the state after a step depends on
/// every micro-batch's gradient, on all parameters before it, and on a global norm. So a lost,
/// repeated or stale contribution changes all later states.
struct ToyTraining {
  uint64_t seed = 1;
  int shards = 1, micro_batches = 1;

  using Values = std::vector<uint64_t>;  // by shard

  Values initial() const;
  /// Gradient of one micro-batch for one shard, from the parameters of all shards after step - 1.
  uint64_t gradient(const Values& parameters, int64_t step, int micro_batch, int shard) const;
  static double norm_part(uint64_t gradient) { return static_cast<double>(gradient % 1000); }
  /// Every few steps overflow, and are skipped.
  static bool finite(double norm) { return static_cast<int64_t>(norm) % 5 != 0; }
  static uint64_t apply(uint64_t value, uint64_t gradient, double norm, bool finite);

  /// states[t]: after step t of an undisturbed run; norms[t]: its norm.
  struct Golden {
    std::vector<Values> states;
    std::vector<double> norms;
  };
  Golden run(int steps) const;
};

uint64_t mix(uint64_t a, uint64_t b);

}  // namespace craton::testing
