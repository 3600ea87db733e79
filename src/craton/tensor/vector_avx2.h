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

/// 2^x for x < 128, relative error 1e-7; 0 below 2^-126. x = n + f with n the nearest integer: n
/// goes into the exponent, and 2^f on
/// [-1/2, 1/2] is a polynomial of degree 6 through the Chebyshev nodes.
inline AvxFloat power_of_two(AvxFloat x) {
  const __m256 lowest = _mm256_set1_ps(-126.0f);
  const __m256 clamped = _mm256_max_ps(lowest, x.v);  // in this order NaN stays NaN
  const __m256i n = _mm256_cvtps_epi32(clamped);
  const __m256 f = _mm256_sub_ps(clamped, _mm256_cvtepi32_ps(n));
  __m256 y = _mm256_set1_ps(1.546144469646172e-4f);
  y = _mm256_fmadd_ps(y, f, _mm256_set1_ps(1.3400428177419153e-3f));
  y = _mm256_fmadd_ps(y, f, _mm256_set1_ps(9.61805667852609e-3f));
  y = _mm256_fmadd_ps(y, f, _mm256_set1_ps(5.550327226670944e-2f));
  y = _mm256_fmadd_ps(y, f, _mm256_set1_ps(0.24022650922288827f));
  y = _mm256_fmadd_ps(y, f, _mm256_set1_ps(0.6931472067028321f));
  y = _mm256_fmadd_ps(y, f, _mm256_set1_ps(1.0f));
  y = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(y), _mm256_slli_epi32(n, 23)));
  return {_mm256_and_ps(y, _mm256_cmp_ps(x.v, lowest, _CMP_NLT_UQ))};
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
