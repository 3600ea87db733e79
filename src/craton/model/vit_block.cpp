#include "craton/model/vit_block.h"

#include <cmath>

#include "craton/model/model.h"
#include "craton/tensor/attention.h"
#include "craton/tensor/block.h"
#include "craton/tensor/context.h"
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

Rotation Rotation::from(int64_t first) const {
  if (!cosine.defined()) return {};
  return {cosine.slice(1, first), sine.slice(1, first)};
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

torch::Tensor VitBlock::attend(const torch::Tensor& x, const Rotation& rotation,
                               const TokenGroups* groups) {
  const int64_t batch = x.size(0), tokens = x.size(1), heads = shape_.heads;
  const torch::Tensor qkv = position(tensor::linear(x, qkv_weight_, qkv_bias_)
                                         .view({batch, tokens, 3 * heads, shape_.dim / heads}),
                                     rotation, heads, heads);
  torch::Tensor mixed;
  if (groups == nullptr) {
    mixed = tensor::attention_packed(qkv);
  } else {
    const tensor::OwnTokensScope own;  // no group reaches beyond a worker
    tensor::AttentionOptions options;
    if (groups->used.defined()) options.key_mask = groups->used.repeat({batch, 1});
    mixed =
        from_groups(tensor::attention_packed(to_groups(qkv, *groups), options).flatten(2), *groups);
  }
  return tensor::linear(mixed.view({batch, tokens, shape_.dim}), proj_weight_, proj_bias_);
}

torch::Tensor VitBlock::attend_to(const torch::Tensor& queries, const Rotation& rotation,
                                  const torch::Tensor& keys, const Rotation& key_rotation) {
  const int64_t batch = keys.size(0), heads = shape_.heads, d = shape_.dim;
  const torch::Tensor q =
      position(tensor::linear(queries, qkv_weight_.narrow(0, 0, d), qkv_bias_.narrow(0, 0, d))
                   .view({batch, queries.size(1), heads, d / heads}),
               rotation, heads, 0);
  const auto kv =
      position(tensor::linear(keys, qkv_weight_.narrow(0, d, 2 * d), qkv_bias_.narrow(0, d, 2 * d))
                   .view({batch, keys.size(1), 2 * heads, d / heads}),
               key_rotation, 0, heads)
          .split(heads, 2);
  const torch::Tensor mixed = tensor::attention(q, kv[0], kv[1]);
  return tensor::linear(mixed.view({batch, queries.size(1), d}), proj_weight_, proj_bias_);
}

Stream VitBlock::finish(Stream x, const torch::Tensor& attended) {
  x.delta = attended;
  x.delta = tensor::gelu_mlp(x.norm(norm2_weight_, norm2_bias_, shape_.norm_eps), fc1_weight_,
                             fc1_bias_, fc2_weight_, fc2_bias_);
  return x;
}

Stream VitBlock::forward(Stream x, const Rotation& rotation, int64_t first_query) {
  const auto body = [this, rotation, first_query](const tensor::Tensors& in) {
    Stream y{in[0], in[1]};
    const torch::Tensor normed = y.norm(norm1_weight_, norm1_bias_, shape_.norm_eps);
    torch::Tensor attended;
    if (first_query > 0) {
      y = y.from(first_query);
      attended =
          attend_to(normed.slice(1, first_query), rotation.from(first_query), normed, rotation);
    } else {
      attended = attend(normed, rotation, nullptr);
    }
    y = finish(std::move(y), attended);
    return tensor::Tensors{y.sum, y.delta};
  };
  const auto out = tensor::run_block(*this, {x.sum, x.delta}, body);
  return {out[0], out[1]};
}

Stream VitBlock::forward_across(Stream x, const Rotation& rotation, const torch::Tensor& seen,
                                const Rotation& seen_rotation) {
  const auto body = [this, rotation, seen_rotation](const tensor::Tensors& in) {
    Stream y{in[0], in[1]}, keys{in[2], {}};
    const torch::Tensor normed = y.norm(norm1_weight_, norm1_bias_, shape_.norm_eps);
    y = finish(std::move(y),
               attend_to(normed, rotation, keys.norm(norm1_weight_, norm1_bias_, shape_.norm_eps),
                         seen_rotation));
    return tensor::Tensors{y.sum, y.delta};
  };
  const auto out = tensor::run_block(*this, {x.sum, x.delta, seen}, body);
  return {out[0], out[1]};
}

Stream VitBlock::forward_within(Stream x, const Rotation& rotation, const TokenGroups& groups) {
  const auto body = [this, rotation, groups](const tensor::Tensors& in) {
    Stream y{in[0], in[1]};
    const torch::Tensor normed = y.norm(norm1_weight_, norm1_bias_, shape_.norm_eps);
    y = finish(std::move(y), attend(normed, rotation, &groups));
    return tensor::Tensors{y.sum, y.delta};
  };
  const auto out = tensor::run_block(*this, {x.sum, x.delta}, body);
  return {out[0], out[1]};
}

double VitBlock::forward_flops(const BlockShape& shape, int64_t keys, int64_t queries,
                               int64_t seen) {
  const auto d = static_cast<double>(shape.dim), m = static_cast<double>(shape.hidden);
  const auto k = static_cast<double>(keys), q = static_cast<double>(queries);
  return k * 4 * d * d + q * (4 * d * d + 4 * d * m) + 4 * static_cast<double>(seen) * q * d;
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
