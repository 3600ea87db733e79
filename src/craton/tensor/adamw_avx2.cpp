#include <immintrin.h>

#include "craton/tensor/adamw_kernel.h"

namespace craton::tensor {
namespace {

/// All bits set in lanes that are infinite or not a number: x - x is then not a number.
__m256 not_finite(__m256 x) {
  const __m256 difference = _mm256_sub_ps(x, x);
  return _mm256_cmp_ps(difference, difference, _CMP_UNORD_Q);
}

}  // namespace

bool avx2_adamw(float* param, float* m, float* v, const float* grad, size_t n,
                const AdamWFactors& s) {
  const __m256 scale = _mm256_set1_ps(s.gradient_scale), keep = _mm256_set1_ps(s.decay);
  const __m256 beta1 = _mm256_set1_ps(s.beta1), rest1 = _mm256_set1_ps(s.rest1);
  const __m256 beta2 = _mm256_set1_ps(s.beta2), rest2 = _mm256_set1_ps(s.rest2);
  const __m256 size = _mm256_set1_ps(s.step_size), eps = _mm256_set1_ps(s.epsilon);
  const __m256 correction = _mm256_set1_ps(s.inverse_correction2);
  __m256 bad = _mm256_setzero_ps();
  for (size_t i = 0; i < n; i += 8) {
    const __m256 g = _mm256_mul_ps(_mm256_loadu_ps(grad + i), scale);
    const __m256 mi =
        _mm256_add_ps(_mm256_mul_ps(beta1, _mm256_loadu_ps(m + i)), _mm256_mul_ps(rest1, g));
    const __m256 vi = _mm256_add_ps(_mm256_mul_ps(beta2, _mm256_loadu_ps(v + i)),
                                    _mm256_mul_ps(rest2, _mm256_mul_ps(g, g)));
    const __m256 root = _mm256_add_ps(_mm256_mul_ps(_mm256_sqrt_ps(vi), correction), eps);
    const __m256 p = _mm256_sub_ps(_mm256_mul_ps(keep, _mm256_loadu_ps(param + i)),
                                   _mm256_mul_ps(size, _mm256_div_ps(mi, root)));
    _mm256_storeu_ps(m + i, mi);
    _mm256_storeu_ps(v + i, vi);
    _mm256_storeu_ps(param + i, p);
    bad = _mm256_or_ps(bad, not_finite(p));
  }
  return _mm256_movemask_ps(bad) == 0;
}

void avx2_squares(const float* x, size_t n, double* sums) {
  __m256d s[4];
  for (int j = 0; j < 4; ++j) s[j] = _mm256_loadu_pd(sums + 4 * j);
  for (size_t i = 0; i < n; i += 16) {
    for (int j = 0; j < 4; ++j) {
      const __m256d d = _mm256_cvtps_pd(_mm_loadu_ps(x + i + 4 * j));
      s[j] = _mm256_add_pd(s[j], _mm256_mul_pd(d, d));  // the square is exact
    }
  }
  for (int j = 0; j < 4; ++j) _mm256_storeu_pd(sums + 4 * j, s[j]);
}

void avx2_add(float* out, const float* a, const float* b, size_t n) {
  for (size_t i = 0; i < n; i += 16) {
    const __m256 x = _mm256_add_ps(_mm256_loadu_ps(a + i), _mm256_loadu_ps(b + i));
    const __m256 y = _mm256_add_ps(_mm256_loadu_ps(a + i + 8), _mm256_loadu_ps(b + i + 8));
    _mm256_storeu_ps(out + i, x);
    _mm256_storeu_ps(out + i + 8, y);
  }
}

bool avx2_all_finite(const float* x, size_t n) {
  __m256 bad = _mm256_setzero_ps();
  for (size_t i = 0; i < n; i += 8) bad = _mm256_or_ps(bad, not_finite(_mm256_loadu_ps(x + i)));
  return _mm256_movemask_ps(bad) == 0;
}

}  // namespace craton::tensor
