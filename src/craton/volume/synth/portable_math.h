#pragma once

#include <bit>
#include <cstdint>

namespace craton::volume::synth {

/// Sine, cosine and exponential from additions and multiplications alone. The system's functions
/// pick their kernels by processor, and so their last bits; these do not. Error below 1e-12 for the
/// arguments that occur here (|x| < 1e6; exponents from -700 to 700).
inline double floor_of(double x) {
  const auto whole = static_cast<double>(static_cast<int64_t>(x));
  return whole > x ? whole - 1 : whole;
}

/// sin(2 pi turns); working in turns makes the reduction exact.
inline double sine_of_turns(double turns) {
  double x = turns - floor_of(turns + 0.5);  // [-0.5, 0.5)
  if (x > 0.25) x = 0.5 - x;
  if (x < -0.25) x = -0.5 - x;
  x *= 6.283185307179586;
  const double y = x * x;
  double sum = -1.0 / 1307674368000.0;  // Taylor to x^15; |x| <= pi / 2
  sum = sum * y + 1.0 / 6227020800.0;
  sum = sum * y - 1.0 / 39916800.0;
  sum = sum * y + 1.0 / 362880.0;
  sum = sum * y - 1.0 / 5040.0;
  sum = sum * y + 1.0 / 120.0;
  sum = sum * y - 1.0 / 6.0;
  return x + x * y * sum;
}

inline double cosine_of_turns(double turns) { return sine_of_turns(turns + 0.25); }

inline double exponential(double x) {
  if (x < -700) return 0;
  if (x > 700) x = 700;
  const double n = floor_of(x * 1.4426950408889634 + 0.5);
  const double r = (x - n * 0.693147180369123816490) - n * 1.90821492927058770002e-10;
  double sum = 1;
  for (int k = 14; k > 0; --k) sum = 1 + r * sum / k;  // |r| <= ln(2) / 2
  return sum * std::bit_cast<double>(static_cast<uint64_t>(static_cast<int64_t>(n) + 1023) << 52);
}

/// Smooth step from 0 at x <= 0 to 1 at x >= 1.
inline double smooth_step(double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  return x * x * x * (x * (x * 6 - 15) + 10);
}

}  // namespace craton::volume::synth
