#pragma once

#include <cmath>
#include <cstdint>

namespace craton::tensor {
namespace {

/// A vector as plain C++: the same operations as AvxFloat, for any processor and for double. The
/// compiler picks the instructions.
template <typename Value>
struct PlainVector {
  using T = Value;
  static constexpr int kWidth = sizeof(T) == 4 ? 8 : 4;
  T lane[kWidth];

  template <typename F>
  static PlainVector each(F f) {
    PlainVector r;
    for (int i = 0; i < kWidth; ++i) r.lane[i] = f(i);
    return r;
  }
  static PlainVector zero() { return set(0); }
  static PlainVector set(T x) {
    return each([x](int) { return x; });
  }
  static PlainVector load(const T* p) {
    return each([p](int i) { return p[i]; });
  }
  void store(T* p) const {
    for (int i = 0; i < kWidth; ++i) p[i] = lane[i];
  }
};

template <typename T>
using Plain = PlainVector<T>;
template <typename T>
inline Plain<T> operator+(Plain<T> a, Plain<T> b) {
  return Plain<T>::each([&](int i) { return a.lane[i] + b.lane[i]; });
}
template <typename T>
inline Plain<T> operator-(Plain<T> a, Plain<T> b) {
  return Plain<T>::each([&](int i) { return a.lane[i] - b.lane[i]; });
}
template <typename T>
inline Plain<T> operator*(Plain<T> a, Plain<T> b) {
  return Plain<T>::each([&](int i) { return a.lane[i] * b.lane[i]; });
}
template <typename T>
inline Plain<T> operator/(Plain<T> a, Plain<T> b) {
  return Plain<T>::each([&](int i) { return a.lane[i] / b.lane[i]; });
}
/// a * b + c
template <typename T>
inline Plain<T> multiply_add(Plain<T> a, Plain<T> b, Plain<T> c) {
  return Plain<T>::each([&](int i) { return a.lane[i] * b.lane[i] + c.lane[i]; });
}
template <typename T>
inline Plain<T> maximum(Plain<T> a, Plain<T> b) {
  return Plain<T>::each([&](int i) { return a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]; });
}
template <typename T>
inline Plain<T> minimum(Plain<T> a, Plain<T> b) {
  return Plain<T>::each([&](int i) { return a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]; });
}
/// x[i] = 2^x[i]; the smallest normal number for what would be smaller.
template <typename T, int kCount>
inline void powers_of_two(Plain<T> (&x)[kCount]) {
  const T lowest = sizeof(T) == 4 ? -126 : -1022;
  for (int i = 0; i < kCount; ++i) {
    for (T& lane : x[i].lane) lane = std::exp2(lane < lowest ? lowest : lane);
  }
}
template <typename T>
inline T sum_lanes(Plain<T> x) {
  T s = 0;
  for (int i = 0; i < Plain<T>::kWidth; ++i) s += x.lane[i];
  return s;
}
template <typename T>
inline T max_lane(Plain<T> x) {
  T m = x.lane[0];
  for (int i = 1; i < Plain<T>::kWidth; ++i) m = x.lane[i] > m ? x.lane[i] : m;
  return m;
}
template <typename T>
inline Plain<T> absolute(Plain<T> x) {
  return Plain<T>::each([&](int i) { return std::fabs(x.lane[i]); });
}
/// Lane by lane: x < 0 ? a : b.
template <typename T>
inline Plain<T> where_negative(Plain<T> x, Plain<T> a, Plain<T> b) {
  return Plain<T>::each([&](int i) { return x.lane[i] < 0 ? a.lane[i] : b.lane[i]; });
}
/// The standard normal distribution and its density.
template <typename T>
inline void normal_distribution(Plain<T> x, Plain<T>& cdf, Plain<T>& density) {
  cdf = Plain<T>::each(
      [&](int i) { return T(0.5) * std::erfc(x.lane[i] * T(-0.70710678118654752440)); });
  density = Plain<T>::each(
      [&](int i) { return T(0.39894228040143267794) * std::exp(T(-0.5) * x.lane[i] * x.lane[i]); });
}
template <typename T>
inline Plain<T> square_root(Plain<T> x) {
  return Plain<T>::each([&](int i) { return std::sqrt(x.lane[i]); });
}

}  // namespace
}  // namespace craton::tensor
