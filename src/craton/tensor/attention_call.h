#pragma once

#include "craton/tensor/attention_block.h"

/// What attention_block.cpp hands to the kernels; a kernel does one (batch row, key head) of it, so
/// calls may run on several threads.
namespace craton::tensor {

template <typename T>
struct AttentionForwardCall {
  AttentionShape shape;
  AttentionMask mask;
  double scale;
  HeadRows<const T> q, k, v;
  AttentionState<T> state;
};

template <typename T>
struct AttentionBackwardCall {
  AttentionShape shape;
  AttentionMask mask;
  double scale;
  HeadRows<const T> q, k, v, d_out;
  const T *lse, *row_dots;
  HeadRows<T> dq, dk, dv;
  bool accumulate;
};

/// Workspaces count elements of T, aligned to 64 bytes.
template <typename T>
struct AttentionKernelTable {
  int64_t (*forward_workspace)(const AttentionShape&);
  void (*forward)(const AttentionForwardCall<T>&, int64_t batch, int64_t kv_head, T* workspace);
  int64_t (*backward_workspace)(const AttentionShape&);
  void (*backward)(const AttentionBackwardCall<T>&, int64_t batch, int64_t kv_head, T* workspace);
};

AttentionKernelTable<float> avx2_attention();
template <typename T>
AttentionKernelTable<T> portable_attention();

}  // namespace craton::tensor
