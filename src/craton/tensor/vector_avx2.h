#pragma once

// Only for sources named *_avx2.cpp, which are compiled with -mavx2 -mfma. Everything has internal
// linkage and calls no inline function of another header, so that no AVX2 code can be linked into a
// program's portable path.
#include <immintrin.h>

namespace craton::tensor {
namespace {

/// Eight floats in a register. The same operations as PlainVector.
struct AvxFloat {
  using T = float;
  static constexpr int kWidth = 8;
  __m256 v;

  static AvxFloat zero() { return {_mm256_setzero_ps()}; }
  static AvxFloat set(float x) { return {_mm256_set1_ps(x)}; }
  static AvxFloat load(const float* p) { return {_mm256_loadu_ps(p)}; }
  void store(float* p) const { _mm256_storeu_ps(p, v); }
};

inline AvxFloat operator+(AvxFloat a, AvxFloat b) { return {_mm256_add_ps(a.v, b.v)}; }
inline AvxFloat operator-(AvxFloat a, AvxFloat b) { return {_mm256_sub_ps(a.v, b.v)}; }
inline AvxFloat operator*(AvxFloat a, AvxFloat b) { return {_mm256_mul_ps(a.v, b.v)}; }
inline AvxFloat operator/(AvxFloat a, AvxFloat b) { return {_mm256_div_ps(a.v, b.v)}; }
/// a * b + c, rounded once
inline AvxFloat multiply_add(AvxFloat a, AvxFloat b, AvxFloat c) {
  return {_mm256_fmadd_ps(a.v, b.v, c.v)};
}
inline AvxFloat maximum(AvxFloat a, AvxFloat b) { return {_mm256_max_ps(a.v, b.v)}; }
inline AvxFloat minimum(AvxFloat a, AvxFloat b) { return {_mm256_min_ps(a.v, b.v)}; }
inline AvxFloat square_root(AvxFloat a) { return {_mm256_sqrt_ps(a.v)}; }

/// x[i] = 2^x[i] for x < 128, relative error 1e-7; 2^-126 for what is smaller, NaN stays NaN. x = n
/// + f with n the nearest integer: n goes into the exponent, and 2^f on [-1/2, 1/2] is a polynomial
/// of degree 6 through the Chebyshev nodes. Several vectors go in step, since one alone waits for
/// its own results most of the time.
template <int kCount>
inline void powers_of_two(AvxFloat (&x)[kCount]) {
  const __m256 magic =
      _mm256_set1_ps(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer in the low bits
  const __m256 lowest = _mm256_set1_ps(-126.0f);
  constexpr float kTerms[] = {1.3400428177419153e-3f, 9.61805667852609e-3f, 5.550327226670944e-2f,
                              0.24022650922288827f,   0.6931472067028321f,  1.0f};
  __m256 n[kCount], f[kCount], y[kCount];
#pragma GCC unroll 8
  for (int i = 0; i < kCount; ++i) {
    const __m256 clamped = _mm256_max_ps(lowest, x[i].v);  // in this order NaN stays NaN
    n[i] = _mm256_add_ps(clamped, magic);
    f[i] = _mm256_sub_ps(clamped, _mm256_sub_ps(n[i], magic));
    y[i] = _mm256_set1_ps(1.546144469646172e-4f);
  }
#pragma GCC unroll 8
  for (const float term : kTerms) {
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) y[i] = _mm256_fmadd_ps(y[i], f[i], _mm256_set1_ps(term));
  }
#pragma GCC unroll 8
  for (int i = 0; i < kCount; ++i) {
    const __m256i exponent = _mm256_slli_epi32(_mm256_castps_si256(n[i]), 23);
    x[i].v = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(y[i]), exponent));
  }
}
inline AvxFloat absolute(AvxFloat x) { return {_mm256_andnot_ps(_mm256_set1_ps(-0.0f), x.v)}; }
/// Lane by lane: x < 0 ? a : b.
inline AvxFloat where_negative(AvxFloat x, AvxFloat a, AvxFloat b) {
  return {_mm256_blendv_ps(b.v, a.v, x.v)};
}

/// The standard normal distribution: cdf within 2e-7, and its density. The tail is a polynomial in
/// 1 / (1 + p |z|) times e^(-z^2), z = x / sqrt 2 (Abramowitz and Stegun 7.1.26), so both share one
/// exponential.
inline void normal_distribution(AvxFloat x, AvxFloat& cdf, AvxFloat& density) {
  AvxFloat e[1] = {x * x * AvxFloat::set(-0.72134752044448170f)};  // log2(e) / 2
  powers_of_two(e);
  const AvxFloat one = AvxFloat::set(1.0f);
  const AvxFloat t =
      one / multiply_add(absolute(x), AvxFloat::set(0.23164190f), one);  // 0.3275911 / sqrt 2
  AvxFloat y = AvxFloat::set(0.5f * 1.061405429f);
  y = multiply_add(y, t, AvxFloat::set(0.5f * -1.453152027f));
  y = multiply_add(y, t, AvxFloat::set(0.5f * 1.421413741f));
  y = multiply_add(y, t, AvxFloat::set(0.5f * -0.284496736f));
  y = multiply_add(y, t, AvxFloat::set(0.5f * 0.254829592f));
  const AvxFloat tail = y * t * e[0];
  cdf = where_negative(x, tail, one - tail);
  density = e[0] * AvxFloat::set(0.39894228f);
}

inline float sum_lanes(AvxFloat x) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(x.v), _mm256_extractf128_ps(x.v, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
inline float max_lane(AvxFloat x) {
  __m128 m = _mm_max_ps(_mm256_castps256_ps128(x.v), _mm256_extractf128_ps(x.v, 1));
  m = _mm_max_ps(m, _mm_movehl_ps(m, m));
  return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}

}  // namespace
}  // namespace craton::tensor
