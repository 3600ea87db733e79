#pragma once

#include <cstddef>
#include <cstdint>

namespace craton::tensor {

/// The numbers of one AdamW update (Loshchilov and Hutter, "Decoupled weight decay regularization",
/// 2019), as PyTorch counts them.
struct AdamWStep {
  double learning_rate = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  double gradient_scale = 1;  ///< the gradient counts times this: averaging and clipping
  int64_t step = 1;           ///< number of this update, from 1
};

/// parameter, exp_avg and exp_avg_sq of n elements in one pass over memory; the arrays do not
/// overlap. Each element is a fixed sequence of IEEE operations in float, so its bits do not depend
/// on the processor, on n or on where a range is cut. Returns whether all new parameters are
/// finite.
bool adamw_update(float* parameter, float* exp_avg, float* exp_avg_sq, const float* gradient,
                  size_t n, const AdamWStep& step);

/// Sum of squares in double: sixteen running sums over the index mod 16, added up in a fixed tree.
/// NaN or infinite exactly if an element is, so it serves as the check too.
double sum_of_squares(const float* values, size_t n);

/// out[i] = a[i] + b[i]; out may be a or b.
void add(float* out, const float* a, const float* b, size_t n);

bool all_finite(const float* values, size_t n);

}  // namespace craton::tensor
