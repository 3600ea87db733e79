#include "craton/base/philox.h"

#include <cmath>

namespace craton {
namespace {

// SplitMix64 finaliser: spreads (seed, purpose) and (a, b) over the key and the upper counter words.
uint64_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

}  // namespace

Philox::Philox(uint64_t seed, RandomPurpose purpose, uint64_t a, uint32_t b) {
  const uint64_t key = mix(mix(seed) ^ static_cast<uint64_t>(purpose));
  const uint64_t high = mix(mix(a) + b);
  key_ = {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)};
  high_ = {static_cast<uint32_t>(high), static_cast<uint32_t>(high >> 32)};
}

std::array<uint32_t, 4> Philox::block(uint64_t index) const {
  std::array<uint32_t, 4> c = {static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32),
                               high_[0], high_[1]};
  uint32_t k0 = key_[0], k1 = key_[1];
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p0)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return c;
}

uint64_t Philox::below(uint64_t index, uint64_t bound) const {
  const auto w = block(index);
  const uint64_t r = (uint64_t{w[0]} << 32) | w[1];
  return static_cast<uint64_t>((static_cast<unsigned __int128>(r) * bound) >> 64);
}

double Philox::normal(uint64_t index) const {
  const auto w = block(index);
  const double u1 = ((uint64_t{w[0]} << 20 | w[1] >> 12) + 1) * 0x1p-52;  // (0, 1]
  const double u2 = (uint64_t{w[2]} << 20 | w[3] >> 12) * 0x1p-52;
  return std::sqrt(-2 * std::log(u1)) * std::cos(2 * 3.14159265358979323846 * u2);
}

}  // namespace craton
