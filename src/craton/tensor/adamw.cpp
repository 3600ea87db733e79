#include "craton/tensor/adamw.h"

#include <cmath>

// One body for each vector width, picked at load time. No contraction (see CMakeLists.txt), so all
// give the same bits.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define CRATON_VECTOR_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define CRATON_VECTOR_CLONES
#endif

namespace craton::tensor {
namespace {

struct Factors {
  float decay, beta1, rest1, beta2, rest2, inverse_correction2, epsilon, step_size, gradient_scale;
};

CRATON_VECTOR_CLONES
void update(float* __restrict p, float* __restrict m, float* __restrict v,
            const float* __restrict g, size_t n, const Factors& factors) {
  const Factors f = factors;
  for (size_t i = 0; i < n; ++i) {
    const float gradient = g[i] * f.gradient_scale;
    const float first = f.beta1 * m[i] + f.rest1 * gradient;
    const float second = f.beta2 * v[i] + f.rest2 * (gradient * gradient);
    m[i] = first;
    v[i] = second;
    const float denominator = __builtin_sqrtf(second) * f.inverse_correction2 + f.epsilon;
    p[i] = p[i] * f.decay - f.step_size * (first / denominator);
  }
}

CRATON_VECTOR_CLONES
void square_sums(const float* values, size_t blocks, double* sums) {
  double s[8] = {};
  for (size_t b = 0; b < blocks; ++b) {
    for (int k = 0; k < 8; ++k) {
      const double x = values[8 * b + static_cast<size_t>(k)];
      s[k] += x * x;
    }
  }
  for (int k = 0; k < 8; ++k) sums[k] = s[k];
}

}  // namespace

void adamw_update(float* parameter, float* exp_avg, float* exp_avg_sq, const float* gradient,
                  size_t n, const AdamWStep& step) {
  const auto t = static_cast<double>(step.step);
  const double correction1 = 1 - std::pow(step.beta1, t);
  const double correction2 = 1 - std::pow(step.beta2, t);
  Factors f;
  f.decay = static_cast<float>(1 - step.learning_rate * step.weight_decay);
  f.beta1 = static_cast<float>(step.beta1);
  f.rest1 = static_cast<float>(1 - step.beta1);
  f.beta2 = static_cast<float>(step.beta2);
  f.rest2 = static_cast<float>(1 - step.beta2);
  f.inverse_correction2 = static_cast<float>(1 / std::sqrt(correction2));
  f.epsilon = static_cast<float>(step.epsilon);
  f.step_size = static_cast<float>(step.learning_rate / correction1);
  f.gradient_scale = static_cast<float>(step.gradient_scale);
  update(parameter, exp_avg, exp_avg_sq, gradient, n, f);
}

double sum_of_squares(const float* values, size_t n) {
  double s[8];
  square_sums(values, n / 8, s);
  for (size_t i = n / 8 * 8; i < n; ++i) s[i % 8] += double{values[i]} * double{values[i]};
  return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

}  // namespace craton::tensor
