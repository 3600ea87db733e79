#include "craton/volume/sampling/permutation.h"

#include "craton/base/check.h"

namespace craton::volume {

Permutation::Permutation(int64_t size, const Philox& random)
    : random_(random), size_(static_cast<uint64_t>(size)) {
  CRATON_CHECK(size >= 1);
  while ((uint64_t{1} << (2 * half_bits_)) < size_) ++half_bits_;
}

uint64_t Permutation::scramble(uint64_t value) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t left = value >> half_bits_, right = value & mask;
  for (uint64_t round = 0; round < 6; ++round) {
    const uint64_t mixed = random_.block(round << 32 | right)[0] & mask;
    const uint64_t next = left ^ mixed;
    left = right;
    right = next;
  }
  return left << half_bits_ | right;
}

int64_t Permutation::operator()(int64_t index) const {
  CRATON_CHECK(index >= 0 && static_cast<uint64_t>(index) < size_);
  if (size_ == 1) return 0;
  auto value = static_cast<uint64_t>(index);
  do {
    value = scramble(value);
  } while (value >= size_);
  return static_cast<int64_t>(value);
}

}  // namespace craton::volume
