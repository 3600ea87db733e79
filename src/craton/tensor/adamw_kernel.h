#pragma once

#include "craton/tensor/adamw.h"

/// The plain loops, which are the definition, and the vector loops, which do whole blocks of 16
/// elements (n is a multiple of 16) with the same operations, each rounded once.
namespace craton::tensor {

/// The factors of a step, rounded to float once.
struct AdamWFactors {
  float gradient_scale, decay, beta1, rest1, beta2, rest2, inverse_correction2, epsilon, step_size;
};
AdamWFactors adamw_factors(const AdamWStep& step);

bool plain_adamw(float* param, float* m, float* v, const float* grad, size_t n,
                 const AdamWFactors& factors);
/// Adds to sums[16].
void plain_squares(const float* x, size_t n, double* sums);

bool avx2_adamw(float* param, float* m, float* v, const float* grad, size_t n,
                const AdamWFactors& factors);
void avx2_squares(const float* x, size_t n, double* sums);
void avx2_add(float* out, const float* a, const float* b, size_t n);
bool avx2_all_finite(const float* x, size_t n);

}  // namespace craton::tensor
