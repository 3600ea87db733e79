#pragma once

#include <tuple>

#include "craton/tensor/torch.h"

/// Differentiable layers for models: each is one node of the graph, passes over memory as few times
/// as it can and saves little. float on the CPU has vector kernels; double goes through plain loops
/// (gradient checks). Inputs are contiguous in the last dimension. Bits are a function of values,
/// shapes and the number of threads.
namespace craton::tensor {

/// x [..., in], weight [out, in], bias [out] or undefined. Returns [..., out].
torch::Tensor linear(const torch::Tensor& x, const torch::Tensor& weight,
                     const torch::Tensor& bias = {});

/// gelu(x weight^T + bias) with the exact GELU, x/2 (1 + erf(x / sqrt 2)): that of ViT checkpoints.
/// Saves the value before GELU only.
torch::Tensor linear_gelu(const torch::Tensor& x, const torch::Tensor& weight,
                          const torch::Tensor& bias = {});

/// The MLP of a transformer block: linear(linear_gelu(x, w1, b1), w2, b2). Saves x and the value
/// before GELU (not the one after).
torch::Tensor gelu_mlp(const torch::Tensor& x, const torch::Tensor& w1, const torch::Tensor& b1,
                       const torch::Tensor& w2, const torch::Tensor& b2);

/// silu(gate) * up, elementwise (SwiGLU's middle). Equal shapes.
torch::Tensor silu_mul(const torch::Tensor& gate, const torch::Tensor& up);

/// Over the last dimension. weight and bias [dim].
torch::Tensor layer_norm(const torch::Tensor& x, const torch::Tensor& weight,
                         const torch::Tensor& bias, double eps = 1e-6);

/// A residual connection and the norm behind it in one pass: sum = x + delta, normed =
/// layer_norm(sum). Returns (sum, normed).
std::tuple<torch::Tensor, torch::Tensor> add_layer_norm(const torch::Tensor& x,
                                                        const torch::Tensor& delta,
                                                        const torch::Tensor& weight,
                                                        const torch::Tensor& bias,
                                                        double eps = 1e-6);

/// x / sqrt(mean(x^2) + eps) * weight, over the last dimension.
torch::Tensor rms_norm(const torch::Tensor& x, const torch::Tensor& weight, double eps = 1e-5);

/// As add_layer_norm, with rms_norm.
std::tuple<torch::Tensor, torch::Tensor> add_rms_norm(const torch::Tensor& x,
                                                      const torch::Tensor& delta,
                                                      const torch::Tensor& weight,
                                                      double eps = 1e-5);

/// Rotary positions in the half-split convention (channel i turns with channel i + head_dim/2):
/// x [batch, tokens, heads, head_dim]; cos and sin [tokens, r] or [batch, tokens, r], r <=
/// head_dim/2 and no gradient. Channels i in [0, r) turn with i + head_dim/2, the others stay. The
/// gradient is the inverse turn; nothing but cos and sin is saved. With `heads` >= 0 only that many
/// heads turn and the others are copied: for a packed [query | key | value] projection.
torch::Tensor rotate(const torch::Tensor& x, const torch::Tensor& cos, const torch::Tensor& sin,
                     int64_t heads = -1);

}  // namespace craton::tensor
