#pragma once

#include <cstdint>

/// What layers.cpp hands to the row-wise kernels. All arrays are contiguous [rows, dim].
namespace craton::tensor {

template <typename T>
struct NormForwardCall {
  const T *x, *delta;      ///< delta may be null; else x + delta is normalised and written to sum
  const T *weight, *bias;  ///< bias may be null
  T *sum, *y, *mean, *scale;  ///< mean and scale = 1 / deviation: [rows]
  int64_t dim;
  double eps;
  bool centered;  ///< LayerNorm; else RMSNorm, whose mean is 0
};

template <typename T>
struct NormBackwardCall {
  const T *dy, *d_sum;  ///< d_sum: gradient that reached x directly, added to dx; or null
  const T *x, *mean, *scale, *weight;
  T* dx;
  int64_t dim;
  bool centered;
};

template <typename T>
struct RowKernelTable {
  void (*gelu)(const T* before, T* after, int64_t n);
  /// gradient: in d_after, out d_before. Writes gelu(before) to `after` once more; adds the columns
  /// of d_before to column_sums.
  void (*gelu_backward)(const T* before, T* gradient, T* after, T* column_sums, int64_t rows,
                        int64_t dim);
  /// sums += columns of x.
  void (*column_sum)(const T* x, T* sums, int64_t rows, int64_t dim);
  void (*silu_mul)(const T* gate, const T* up, T* out, int64_t n);
  void (*silu_mul_backward)(const T* gate, const T* up, const T* d_out, T* d_gate, T* d_up,
                            int64_t n);
  void (*norm)(const NormForwardCall<T>& call, int64_t first, int64_t rows);
  /// Adds to d_weight and d_bias (null: none).
  void (*norm_backward)(const NormBackwardCall<T>& call, int64_t first, int64_t rows, T* d_weight,
                        T* d_bias);
  /// One head: channels i < turned turn with i + half by the angle of (cos, sign sin). y may be x.
  void (*rotate)(const T* x, T* y, const T* cos, const T* sin, int64_t turned, int64_t half,
                 T sign);
};

RowKernelTable<float> avx2_rows();
template <typename T>
RowKernelTable<T> portable_rows();

}  // namespace craton::tensor
