#pragma once

#include <vector>

#include "craton/tensor/ring_attention.h"

namespace craton::tensor {

/// Attention over the tokens of all peers of a scope, by its method. Heads are shared out among
/// groups of neighbouring peers (Jacobs et al., "DeepSpeed Ulysses", 2023): an all-to-all gives
/// each the tokens of its whole group for some of the heads, and a second one takes the result back
/// to the tokens' owners. Peers with the same heads in different groups form a ring (Fang and Zhao,
/// "USP", 2024). One peer per group: a plain ring.
///
/// With u peers per group and n own tokens, bytes sent per peer are those of
/// 2 * n * (heads + kv_heads) * head_dim * (u-1)/u elements forward and twice that backward, beside
/// the ring's. Fewer key heads than peers in a group: each goes to all that need it.
struct SharedAttention {
  torch::Tensor out;  ///< [batch, n, heads, head_dim]
  /// For backward: queries, keys, values, sinks, key_mask, out and lse of the tokens and heads that
  /// this peer computed.
  std::vector<torch::Tensor> saved;
  /// Queries, then keys, by peer of the group; empty: one peer.
  std::vector<int64_t> counts;
};
SharedAttention shared_forward(const ContextScope& scope, const torch::Tensor& q,
                               const torch::Tensor& k, const torch::Tensor& v,
                               const torch::Tensor& sinks, const torch::Tensor& key_mask,
                               const RingOptions& options);
/// `heads` and `kv_heads` as forward got them.
RingGradients shared_backward(const ContextScope& scope, const torch::Tensor& d_out, int64_t heads,
                              int64_t kv_heads, const std::vector<torch::Tensor>& saved,
                              const std::vector<int64_t>& counts, const RingOptions& options);

/// Peers in a group for an attention with so many heads. Error when the method asks for more than
/// the heads allow.
int peers_per_group(ContextMethod method, int peers, int64_t heads, int64_t kv_heads);

}  // namespace craton::tensor
