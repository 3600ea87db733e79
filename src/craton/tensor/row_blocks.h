#pragma once

#include <type_traits>

#include "craton/base/error.h"
#include "craton/tensor/processor.h"
#include "craton/tensor/row_call.h"
#include "craton/tensor/torch.h"

/// What the layers share: the choice of kernels, and how rows are split over threads.
namespace craton::tensor {

template <typename T>
RowKernelTable<T> row_kernels() {
  if constexpr (std::is_same_v<T, float>) {
    if (vector_kernels()) return avx2_rows();
  }
  return portable_rows<T>();
}

/// Calls f(T{}) with T float or double; Error for other types and devices. `layer` is the name for
/// the message.
template <typename F>
auto with_type(const torch::Tensor& x, const char* layer, F f) {
  if (!x.device().is_cpu()) fail(ErrorCode::kUnsupported, "{}: takes tensors on the CPU", layer);
  switch (x.scalar_type()) {
    case torch::kFloat:
      return f(float{});
    case torch::kDouble:
      return f(double{});
    default:
      fail(ErrorCode::kUnsupported, "{}: takes float or double, found {}", layer,
           c10::toString(x.scalar_type()));
  }
}

/// Rows are split into blocks of this many whatever the threads, so that sums over rows do not
/// depend on them.
constexpr int64_t kRowBlock = 128;

inline int64_t row_blocks(int64_t rows) { return (rows + kRowBlock - 1) / kRowBlock; }

/// Calls body(block, first row, rows) for each block, on several threads.
template <typename F>
void for_each_row_block(int64_t rows, F body) {
  at::parallel_for(0, row_blocks(rows), 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b)
      body(b, b * kRowBlock, std::min(kRowBlock, rows - b * kRowBlock));
  });
}

/// partials [blocks, n] -> [n], in order of blocks.
template <typename T>
torch::Tensor add_blocks(const torch::Tensor& partials) {
  if (partials.size(0) == 1) return partials[0];
  torch::Tensor sum = torch::zeros({partials.size(1)}, partials.options());
  row_kernels<T>().column_sum(partials.data_ptr<T>(), sum.data_ptr<T>(), partials.size(0),
                              partials.size(1));
  return sum;
}

/// Sum over rows of x [rows, dim], contiguous.
template <typename T>
torch::Tensor column_sum(const torch::Tensor& x) {
  const int64_t rows = x.size(0), dim = x.size(1);
  const torch::Tensor partials =
      torch::zeros({std::max<int64_t>(1, row_blocks(rows)), dim}, x.options());
  for_each_row_block(rows, [&](int64_t block, int64_t first, int64_t n) {
    row_kernels<T>().column_sum(x.data_ptr<T>() + first * dim, partials.data_ptr<T>() + block * dim,
                                n, dim);
  });
  return add_blocks<T>(partials);
}

}  // namespace craton::tensor
