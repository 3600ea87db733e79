#pragma once

#include <array>
#include <cstdint>

namespace craton::volume {

/// Two independent numbers of mean 0 and variance 1 from one Philox block: sums of four 16-bit
/// uniforms each, so at most 3.46. Integer arithmetic until the last multiplication: the same bits
/// on every processor, and far faster than Box-Muller.
inline std::array<float, 2> nearly_normal(const std::array<uint32_t, 4>& words) {
  constexpr float kUnit = 1.7320508f / 65536.0f;  // the sum of four uniforms has variance 1/3
  const auto sum = [](uint32_t a, uint32_t b) {
    const uint32_t total = (a & 0xffff) + (a >> 16) + (b & 0xffff) + (b >> 16);
    return static_cast<float>(static_cast<int32_t>(total) - 2 * 65535) * kUnit;
  };
  return {sum(words[0], words[1]), sum(words[2], words[3])};
}

}  // namespace craton::volume
