#include "craton/train/peak_flops.h"

#include <algorithm>
#include <chrono>
#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace craton::train {
namespace {

#if defined(__x86_64__)
// Ten independent chains of fused multiply-adds hide their latency; nothing leaves the registers.
__attribute__((target("avx2,fma"))) float multiply_add(int64_t rounds) {
  const __m256 factor = _mm256_set1_ps(0.999f), term = _mm256_set1_ps(0.001f);
  __m256 chains[10];
  for (auto& chain : chains) chain = _mm256_set1_ps(1.0f);
  for (int64_t r = 0; r < rounds; ++r) {
    for (auto& chain : chains) chain = _mm256_fmadd_ps(chain, factor, term);
  }
  __m256 sum = chains[0];
  for (int k = 1; k < 10; ++k) sum = _mm256_add_ps(sum, chains[k]);
  return _mm256_cvtss_f32(sum);
}
#endif

}  // namespace

double measure_peak_flops() {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("fma") || !__builtin_cpu_supports("avx2")) return 0;
  constexpr int64_t kRounds = 1'000'000;
  double best = 0;
  for (int trial = 0; trial < 3; ++trial) {
    const auto start = std::chrono::steady_clock::now();
    volatile float sink = multiply_add(kRounds);
    (void)sink;
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best = std::max(best, static_cast<double>(kRounds) * 10 * 8 * 2 / seconds);
  }
  return best;
#else
  return 0;
#endif
}

}  // namespace craton::train
