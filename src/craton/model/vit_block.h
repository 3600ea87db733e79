#pragma once

#include <cstdint>

#include "craton/model/token_groups.h"
#include "craton/tensor/torch.h"

namespace craton::model {

/// Fixed rotary positions of one batch of tokens; undefined tensors mean none.
struct Rotation {
  torch::Tensor cosine, sine;  ///< [batch, tokens, head_dim/2]
  /// The same without tokens [0, first).
  Rotation from(int64_t first) const;
};

struct BlockShape {
  int64_t dim = 0;
  int64_t heads = 1;
  int64_t hidden = 0;  ///< width of the MLP
  bool qk_norm = false;
  double norm_eps = 1e-6;
};

/// The residual stream between blocks, kept as value = sum + delta, so that the next norm adds and
/// normalises in one pass.
struct Stream {
  torch::Tensor sum;    ///< [batch, tokens, dim]
  torch::Tensor delta;  ///< the same shape, or undefined for none

  /// layer_norm(sum + delta); sum takes delta up.
  torch::Tensor norm(const torch::Tensor& weight, const torch::Tensor& bias, double eps);

  /// The same without tokens [0, first).
  Stream from(int64_t first) const;
};

/// One pre-norm transformer block: x + attention(norm(x)), then x + mlp(norm(x)), GELU.
class VitBlock : public torch::nn::Module {
 public:
  explicit VitBlock(const BlockShape& shape);

  /// With first_query > 0 the result has tokens [first_query, tokens) only; they attend to all. A
  /// last block whose other rows nobody reads saves their queries, attention and MLP.
  Stream forward(Stream x, const Rotation& rotation, int64_t first_query = 0);

  /// Tokens attend to the tokens `seen` [batch, seen tokens, dim] only, not to each other; those
  /// stay as they are (Fu et al., "Rethinking patch dependence for masked autoencoders", 2024).
  Stream forward_across(Stream x, const Rotation& rotation, const torch::Tensor& seen,
                        const Rotation& seen_rotation);

  /// Tokens attend to those of their group, in the order of the grid.
  Stream forward_within(Stream x, const Rotation& rotation, const TokenGroups& groups);

  /// Floating-point operations of one forward pass: `queries` tokens attend to `seen` of `keys`
  /// tokens each.
  static double forward_flops(const BlockShape& shape, int64_t keys, int64_t queries, int64_t seen);

 private:
  torch::Tensor attend(const torch::Tensor& x, const Rotation& rotation, const TokenGroups* groups);
  torch::Tensor attend_to(const torch::Tensor& queries, const Rotation& rotation,
                          const torch::Tensor& keys, const Rotation& key_rotation);
  Stream finish(Stream x, const torch::Tensor& attended);
  torch::Tensor position(const torch::Tensor& x, const Rotation& rotation, int64_t queries,
                         int64_t keys) const;

  BlockShape shape_;
  torch::Tensor norm1_weight_, norm1_bias_, qkv_weight_, qkv_bias_, proj_weight_, proj_bias_;
  torch::Tensor query_norm_weight_, key_norm_weight_;
  torch::Tensor norm2_weight_, norm2_bias_, fc1_weight_, fc1_bias_, fc2_weight_, fc2_bias_;
};

/// Sets the parameters of a transformer from (seed, name): matrices as Xavier and cut at two
/// deviations, vectors whose name ends in "norm...weight" to 1, other vectors to 0.
void init_transformer(torch::nn::Module& module, uint64_t seed);

}  // namespace craton::model
