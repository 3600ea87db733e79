#pragma once

#include "craton/tensor/attention_block.h"
#include "craton/tensor/context.h"

namespace craton::tensor {

/// Attention over the tokens of all peers of a context (Liu et al., "Ring attention with blockwise
/// transformers for near-infinite context", 2023).
///
///   forward    in step t the keys and values of the peer t in front arrive while those of the last
///   step are computed with; the state of the online softmax goes from block to block
///   backward   the same again; the gradient of a block of keys goes back to its owner, which adds
///   up what comes in the order of the steps. lse and row dots are those of the whole attention.
///
/// A step in which no query sees a key is left out, also its messages. Two blocks are in memory at
/// a time. Bytes sent per peer: forward 2 * n * kv_heads * head_dim * (C-1) elements for n own
/// tokens, backward twice that. With one peer the bits are those of local attention.
struct RingOptions {
  double scale = 1;
  bool causal = false;
  int64_t window = 0;
};

/// q [batch, n, heads, head_dim], k and v [batch, n, kv_heads, head_dim]; sinks and key_mask
/// [batch, n] may be undefined. Returns (out, lse); lse [batch, heads, n].
std::pair<torch::Tensor, torch::Tensor> ring_forward(
    ContextPeers& peers, const ContextLayout& layout, const torch::Tensor& q,
    const torch::Tensor& k, const torch::Tensor& v, const torch::Tensor& sinks,
    const torch::Tensor& key_mask, const RingOptions& options);

struct RingGradients {
  torch::Tensor dq, dk, dv, d_sinks;
};
RingGradients ring_backward(ContextPeers& peers, const ContextLayout& layout,
                            const torch::Tensor& d_out, const torch::Tensor& q,
                            const torch::Tensor& k, const torch::Tensor& v,
                            const torch::Tensor& sinks, const torch::Tensor& key_mask,
                            const torch::Tensor& out, const torch::Tensor& lse,
                            const RingOptions& options);

}  // namespace craton::tensor
