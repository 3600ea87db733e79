#pragma once

#include <cstddef>
#include <cstdint>

/// The attention kernel on raw memory, one block of queries against one block of keys: the unit
/// that ring attention repeats over the workers. No libtorch here. T is float or double.
namespace craton::tensor {

/// A tensor [batch, tokens, heads, head_dim] whose last stride is 1; the other strides count
/// elements.
template <typename T>
struct HeadRows {
  T* data = nullptr;
  int64_t batch_stride = 0, token_stride = 0, head_stride = 0;
  T* row(int64_t batch, int64_t token, int64_t head) const {
    return data + batch * batch_stride + token * token_stride + head * head_stride;
  }
};

struct AttentionShape {
  int64_t batch = 0, queries = 0, keys = 0, heads = 0, kv_heads = 0, head_dim = 0;
};

/// Which keys a query sees. Positions count from the block's first key: query i stands at i +
/// query_offset, key j at j.
struct AttentionMask {
  bool causal = false;  ///< j <= position
  int64_t window =
      0;  ///< > 0: also j > position - window, and without causal j < position + window
  int64_t query_offset =
      0;  ///< position of query 0; negative when the block of keys begins behind it
  const bool* key_mask =
      nullptr;  ///< [batch, keys], false = padding: never seen, values are not even read into sums
  int64_t key_mask_stride = 0;  ///< elements from one batch row to the next
};

/// Running softmax of each query over the blocks of keys seen so far. max counts in units of log2 e
/// and is opaque; out holds the not yet normalised sum. max and sum are [batch, heads, queries],
/// contiguous.
template <typename T>
struct AttentionState {
  HeadRows<T> out;
  T* max = nullptr;
  T* sum = nullptr;
};

/// Sets the state of no key seen: max = -inf, sum = 0, out = 0.
template <typename T>
void attention_begin(const AttentionShape& shape, const AttentionState<T>& state);

/// Adds one block of keys to the state. Order matters for the last bits only.
template <typename T>
void attention_forward_block(const AttentionShape& shape, const AttentionMask& mask, double scale,
                             HeadRows<const T> q, HeadRows<const T> k, HeadRows<const T> v,
                             const AttentionState<T>& state);

/// Normalises out in place and writes lse[batch, heads, queries] = log of the sum of exp(logit).
/// sinks [heads] (or null) join the denominator here, exactly once. A query without a visible key
/// and without sink gets out = 0, lse = -inf.
template <typename T>
void attention_finish(const AttentionShape& shape, const AttentionState<T>& state, const T* sinks,
                      T* lse);

/// (a, lse_a) becomes the attention over the union of both blocks' keys. Both normalised, without
/// sinks. -inf means no key.
template <typename T>
void attention_merge(const AttentionShape& shape, HeadRows<T> a, T* lse_a, HeadRows<const T> b,
                     const T* lse_b);

/// rows[batch, heads, queries] = sum over channels of d_out * out.
template <typename T>
void attention_row_dots(const AttentionShape& shape, HeadRows<const T> d_out, HeadRows<const T> out,
                        T* rows);

/// Gradient of one block of keys, given lse and row dots of the whole attention (all blocks, sinks
/// included). With accumulate, adds to dq, dk and dv, else overwrites them. dk and dv sum over the
/// query heads of their group.
template <typename T>
void attention_backward_block(const AttentionShape& shape, const AttentionMask& mask, double scale,
                              HeadRows<const T> q, HeadRows<const T> k, HeadRows<const T> v,
                              HeadRows<const T> d_out, const T* lse, const T* row_dots,
                              HeadRows<T> dq, HeadRows<T> dk, HeadRows<T> dv, bool accumulate);

}  // namespace craton::tensor
