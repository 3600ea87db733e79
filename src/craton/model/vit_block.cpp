#include "craton/model/vit_block.h"

#include <cmath>

#include "craton/model/model.h"
#include "craton/tensor/attention.h"
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

torch::Tensor VitBlock::attend(const torch::Tensor& x, const Rotation& rotation) {
  const int64_t batch = x.size(0), tokens = x.size(1), heads = shape_.heads;
  const int64_t head_dim = shape_.dim / heads;
  const torch::Tensor qkv =
      tensor::linear(x, qkv_weight_, qkv_bias_).view({batch, tokens, 3 * heads, head_dim});
  torch::Tensor mixed;
  if (!shape_.qk_norm && !rotation.cosine.defined()) {
    mixed = tensor::attention_packed(qkv);
  } else {
    const auto parts = qkv.split(heads, 2);  // 3 x [batch, tokens, heads, head_dim], views
    torch::Tensor q = parts[0], k = parts[1];
    if (shape_.qk_norm) {
      q = torch::layer_norm(q, {head_dim}, query_norm_weight_, {}, shape_.norm_eps);
      k = torch::layer_norm(k, {head_dim}, key_norm_weight_, {}, shape_.norm_eps);
    }
    if (rotation.cosine.defined()) {
      q = tensor::rotate(q, rotation.cosine, rotation.sine);
      k = tensor::rotate(k, rotation.cosine, rotation.sine);
    }
    mixed = tensor::attention(q, k, parts[2]);
  }
  return tensor::linear(mixed.view({batch, tokens, shape_.dim}), proj_weight_, proj_bias_);
}

Stream VitBlock::forward(Stream x, const Rotation& rotation) {
  x.delta = attend(x.norm(norm1_weight_, norm1_bias_, shape_.norm_eps), rotation);
  x.delta = tensor::gelu_mlp(x.norm(norm2_weight_, norm2_bias_, shape_.norm_eps), fc1_weight_,
                             fc1_bias_, fc2_weight_, fc2_bias_);
  return x;
}

double VitBlock::forward_flops(const BlockShape& shape, int64_t tokens) {
  const auto d = static_cast<double>(shape.dim), m = static_cast<double>(shape.hidden);
  const auto n = static_cast<double>(tokens);
  return n * (2 * (4 * d * d + 2 * d * m) + 4 * n * d);
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
