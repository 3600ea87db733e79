#include "craton/tensor/layers.h"

namespace craton::tensor {

using torch::Tensor;

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return torch::nn::functional::linear(x, weight, bias);
}

Tensor linear_gelu(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return torch::gelu(linear(x, weight, bias));
}

Tensor gelu_mlp(const Tensor& x, const Tensor& w1, const Tensor& b1, const Tensor& w2,
                const Tensor& b2) {
  return linear(linear_gelu(x, w1, b1), w2, b2);
}

Tensor silu_mul(const Tensor& gate, const Tensor& up) { return torch::silu(gate) * up; }

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  return torch::layer_norm(x, {x.size(-1)}, weight, bias, eps);
}

std::tuple<Tensor, Tensor> add_layer_norm(const Tensor& x, const Tensor& delta,
                                          const Tensor& weight, const Tensor& bias, double eps) {
  Tensor sum = x + delta;
  return {sum, layer_norm(sum, weight, bias, eps)};
}

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  return x * torch::rsqrt(x.square().mean(-1, true) + eps) * weight;
}

std::tuple<Tensor, Tensor> add_rms_norm(const Tensor& x, const Tensor& delta, const Tensor& weight,
                                        double eps) {
  Tensor sum = x + delta;
  return {sum, rms_norm(sum, weight, eps)};
}

Tensor rotate(const Tensor& x, const Tensor& cos, const Tensor& sin) {
  const int64_t half = x.size(3) / 2, turned = cos.size(-1);
  const Tensor c = cos.unsqueeze(-2), s = sin.unsqueeze(-2);  // [(batch,) tokens, 1, r]
  const Tensor a = x.narrow(3, 0, turned), b = x.narrow(3, half, turned);
  return torch::cat({a * c - b * s, x.narrow(3, turned, half - turned), a * s + b * c,
                     x.narrow(3, half + turned, x.size(3) - half - turned)},
                    3);
}

}  // namespace craton::tensor
