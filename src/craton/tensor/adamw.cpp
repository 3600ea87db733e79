#include "craton/tensor/adamw.h"

#include <cmath>

#include "craton/tensor/adamw_kernel.h"
#include "craton/tensor/processor.h"

namespace craton::tensor {
namespace {

constexpr size_t kBlock = 16;

/// How many of n elements the vector loops take.
size_t vector_part(size_t n) { return vector_kernels() ? n / kBlock * kBlock : 0; }

}  // namespace

AdamWFactors adamw_factors(const AdamWStep& step) {
  const double t = double(step.step);
  return {.gradient_scale = float(step.gradient_scale),
          .decay = float(1 - step.learning_rate * step.weight_decay),
          .beta1 = float(step.beta1),
          .rest1 = float(1 - step.beta1),
          .beta2 = float(step.beta2),
          .rest2 = float(1 - step.beta2),
          .inverse_correction2 = float(1 / std::sqrt(1 - std::pow(step.beta2, t))),
          .epsilon = float(step.epsilon),
          .step_size = float(step.learning_rate / (1 - std::pow(step.beta1, t)))};
}

bool plain_adamw(float* param, float* m, float* v, const float* grad, size_t n,
                 const AdamWFactors& s) {
  bool finite = true;
  for (size_t i = 0; i < n; ++i) {
    const float g = grad[i] * s.gradient_scale;
    m[i] = s.beta1 * m[i] + s.rest1 * g;
    v[i] = s.beta2 * v[i] + s.rest2 * (g * g);
    const float root = std::sqrt(v[i]) * s.inverse_correction2 + s.epsilon;
    param[i] = s.decay * param[i] - s.step_size * (m[i] / root);
    finite &= std::isfinite(param[i]);
  }
  return finite;
}

void plain_squares(const float* x, size_t n, double* sums) {
  for (size_t i = 0; i < n; ++i) sums[i % kBlock] += double(x[i]) * double(x[i]);
}

bool adamw_update(float* parameter, float* exp_avg, float* exp_avg_sq, const float* gradient,
                  size_t n, const AdamWStep& step) {
  const AdamWFactors factors = adamw_factors(step);
  const size_t done = vector_part(n);
  const bool finite =
      done == 0 || avx2_adamw(parameter, exp_avg, exp_avg_sq, gradient, done, factors);
  return plain_adamw(parameter + done, exp_avg + done, exp_avg_sq + done, gradient + done, n - done,
                     factors) &&
         finite;
}

double sum_of_squares(const float* x, size_t n) {
  double sums[kBlock] = {};
  const size_t done = vector_part(n);
  if (done > 0) avx2_squares(x, done, sums);
  plain_squares(x + done, n - done, sums);
  for (size_t half = kBlock / 2; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) sums[i] += sums[i + half];
  }
  return sums[0];
}

void add(float* out, const float* a, const float* b, size_t n) {
  const size_t done = vector_part(n);
  if (done > 0) avx2_add(out, a, b, done);
  for (size_t i = done; i < n; ++i) out[i] = a[i] + b[i];
}

bool all_finite(const float* x, size_t n) {
  const size_t done = vector_part(n);
  bool finite = done == 0 || avx2_all_finite(x, done);
  for (size_t i = done; i < n; ++i) finite &= std::isfinite(x[i]);
  return finite;
}

}  // namespace craton::tensor
