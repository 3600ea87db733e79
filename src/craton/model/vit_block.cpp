#include "craton/model/vit_block.h"

#include <cmath>

#include "craton/model/model.h"
#include "craton/tensor/attention.h"
#include "craton/tensor/block.h"
#include "craton/tensor/layers.h"

namespace craton::model {

VitBlock::VitBlock(const BlockShape& shape) : shape_(shape) {
  const int64_t d = shape.dim, m = shape.hidden, e = d / shape.heads;
  const auto add = [this](const char* name, std::vector<int64_t> sizes) {
    return register_parameter(name, torch::zeros(sizes));
  };
  norm1_weight_ = add("norm1_weight", {d});
  norm1_bias_ = add("norm1_bias", {d});
  qkv_weight_ = add("qkv_weight", {3 * d, d});
  qkv_bias_ = add("qkv_bias", {3 * d});
  if (shape.qk_norm) {
    query_norm_weight_ = add("query_norm_weight", {e});
    key_norm_weight_ = add("key_norm_weight", {e});
  }
  proj_weight_ = add("proj_weight", {d, d});
  proj_bias_ = add("proj_bias", {d});
  norm2_weight_ = add("norm2_weight", {d});
  norm2_bias_ = add("norm2_bias", {d});
  fc1_weight_ = add("fc1_weight", {m, d});
  fc1_bias_ = add("fc1_bias", {m});
  fc2_weight_ = add("fc2_weight", {d, m});
  fc2_bias_ = add("fc2_bias", {d});
}

torch::Tensor Stream::norm(const torch::Tensor& weight, const torch::Tensor& bias, double eps) {
  if (!delta.defined()) return tensor::layer_norm(sum, weight, bias, eps);
  torch::Tensor normed;
  std::tie(sum, normed) = tensor::add_layer_norm(sum, delta, weight, bias, eps);
  delta = torch::Tensor();
  return normed;
}

Stream Stream::from(int64_t first) const {
  return {sum.slice(1, first), delta.defined() ? delta.slice(1, first) : delta};
}

/// x [batch, tokens, query | key | value heads, head_dim]: queries and keys normed, if the model
/// does that, and turned; values stay.
torch::Tensor VitBlock::position(const torch::Tensor& x, const Rotation& rotation, int64_t queries,
                                 int64_t keys) const {
  torch::Tensor y = x;
  if (shape_.qk_norm) {
    const int64_t values = x.size(2) - queries - keys, head_dim = x.size(3);
    const auto parts = x.split_with_sizes({queries, keys, values}, 2);
    y = torch::cat(
        {torch::layer_norm(parts[0], {head_dim}, query_norm_weight_, {}, shape_.norm_eps),
         torch::layer_norm(parts[1], {head_dim}, key_norm_weight_, {}, shape_.norm_eps), parts[2]},
        2);
  }
  return rotation.cosine.defined()
             ? tensor::rotate(y, rotation.cosine, rotation.sine, queries + keys)
             : y;
}

torch::Tensor VitBlock::attend(const torch::Tensor& x, const Rotation& rotation) {
  const int64_t batch = x.size(0), tokens = x.size(1), heads = shape_.heads;
  const torch::Tensor qkv = tensor::linear(x, qkv_weight_, qkv_bias_)
                                .view({batch, tokens, 3 * heads, shape_.dim / heads});
  const torch::Tensor mixed = tensor::attention_packed(position(qkv, rotation, heads, heads));
  return tensor::linear(mixed.view({batch, tokens, shape_.dim}), proj_weight_, proj_bias_);
}

torch::Tensor VitBlock::attend_from(const torch::Tensor& x, const Rotation& rotation,
                                    int64_t first_query) {
  const int64_t batch = x.size(0), tokens = x.size(1), heads = shape_.heads, d = shape_.dim;
  const int64_t wanted = tokens - first_query;
  const Rotation query_rotation =
      rotation.cosine.defined()
          ? Rotation{rotation.cosine.slice(1, first_query), rotation.sine.slice(1, first_query)}
          : rotation;
  const torch::Tensor q =
      position(tensor::linear(x.slice(1, first_query), qkv_weight_.narrow(0, 0, d),
                              qkv_bias_.narrow(0, 0, d))
                   .view({batch, wanted, heads, d / heads}),
               query_rotation, heads, 0);
  const auto kv =
      position(tensor::linear(x, qkv_weight_.narrow(0, d, 2 * d), qkv_bias_.narrow(0, d, 2 * d))
                   .view({batch, tokens, 2 * heads, d / heads}),
               rotation, 0, heads)
          .split(heads, 2);
  const torch::Tensor mixed = tensor::attention(q, kv[0], kv[1]);
  return tensor::linear(mixed.view({batch, wanted, d}), proj_weight_, proj_bias_);
}

Stream VitBlock::forward(Stream x, const Rotation& rotation, int64_t first_query) {
  const auto out = tensor::run_block(*this, {x.sum, x.delta}, [&](const tensor::Tensors& in) {
    const Stream y = compute({in[0], in[1]}, rotation, first_query);
    return tensor::Tensors{y.sum, y.delta};
  });
  return {out[0], out[1]};
}

Stream VitBlock::compute(Stream x, const Rotation& rotation, int64_t first_query) {
  const torch::Tensor normed = x.norm(norm1_weight_, norm1_bias_, shape_.norm_eps);
  if (first_query > 0) {
    x = x.from(first_query);
    x.delta = attend_from(normed, rotation, first_query);
  } else {
    x.delta = attend(normed, rotation);
  }
  x.delta = tensor::gelu_mlp(x.norm(norm2_weight_, norm2_bias_, shape_.norm_eps), fc1_weight_,
                             fc1_bias_, fc2_weight_, fc2_bias_);
  return x;
}

double VitBlock::forward_flops(const BlockShape& shape, int64_t tokens, int64_t queries) {
  const auto d = static_cast<double>(shape.dim), m = static_cast<double>(shape.hidden);
  const auto n = static_cast<double>(tokens), q = static_cast<double>(queries);
  return n * 4 * d * d + q * (4 * d * d + 4 * d * m) + 4 * n * q * d;
}

void init_transformer(torch::nn::Module& module, uint64_t seed) {
  torch::NoGradGuard no_grad;
  for (auto& entry : module.named_parameters()) {
    torch::Tensor parameter = entry.value();
    const std::string& name = entry.key();
    if (parameter.dim() >= 2) {
      const auto fans = static_cast<double>(parameter.size(0) + parameter.size(1));
      init_normal(parameter, std::sqrt(2 / fans), seed, name);
    } else if (name.find("norm") != std::string::npos && name.ends_with("weight")) {
      parameter.fill_(1);
    } else {
      parameter.zero_();
    }
  }
}

}  // namespace craton::model
