#pragma once

#include <cstdint>

#include "craton/base/philox.h"

namespace craton::volume {

/// A random permutation of 0..size-1 of which any element is computed directly: a Feistel network
/// on the next even power of two, walked until it lands inside (Black and Rogaway, "Ciphers with
/// arbitrary finite domains", 2002). About one round trip on average.
class Permutation {
 public:
  /// `random` keys it; size >= 1.
  Permutation(int64_t size, const Philox& random);
  /// 0 <= index < size.
  int64_t operator()(int64_t index) const;

 private:
  uint64_t scramble(uint64_t value) const;
  Philox random_;
  uint64_t size_;
  int half_bits_ = 1;
};

}  // namespace craton::volume
