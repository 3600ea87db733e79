#pragma once

#include <cstdint>
#include <optional>

#include "craton/tensor/torch.h"

namespace craton::tensor {

struct AttentionOptions {
  std::optional<double> scale;  ///< default 1/sqrt(head_dim)
  bool causal = false;          ///< query i sees keys 0..i (+ key_tokens - query_tokens)
  int64_t window = 0;  ///< > 0: with causal, only the last `window` keys; without, keys nearer than
                       ///< `window` tokens
  torch::Tensor
      sinks;  ///< [heads] learned logits that join the denominator only (gpt-oss), or undefined
  torch::Tensor key_mask;  ///< [batch, key_tokens] bool, false = padding, or undefined
};

/// Scaled dot-product attention, differentiable in q, k, v and sinks; the one door to attention for
/// every model. q [batch, tokens, heads, head_dim], k and v [batch, key_tokens, kv_heads,
/// head_dim], kv_heads divides heads (grouped queries). Last stride 1; other strides are free, so
/// views of a packed QKV projection need no copy. Returns [batch, tokens, heads, head_dim],
/// contiguous. Blockwise with online softmax (Dao et al., FlashAttention-2, 2023): never forms
/// tokens x key_tokens. A row with no visible key gives 0. float and double on the CPU. Bits depend
/// on shapes and values only (one thread), not on where a batch row sits. Inside a ContextScope the
/// tokens are those of all its workers (ring attention).
torch::Tensor attention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                        const AttentionOptions& options = {});

/// The same for qkv [batch, tokens, heads + 2 kv_heads, head_dim], the packed projection of query,
/// key and value heads in this order: the gradient comes back packed, without a copy. kv_heads = 0
/// means as many as query heads.
torch::Tensor attention_packed(const torch::Tensor& qkv, const AttentionOptions& options = {},
                               int64_t kv_heads = 0);

}  // namespace craton::tensor
