#include "craton/tensor/layers.h"
#include "craton/tensor/row_blocks.h"

namespace craton::tensor {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Optional = c10::optional<Tensor>;

struct Normed {
  Tensor sum;  ///< what was normalised: x + delta, or x
  Tensor y, mean, scale;
};

Normed norm_forward(const Tensor& x, const Tensor* delta, const Tensor& weight, const Tensor* bias,
                    double eps, bool centered) {
  return with_type(x, "norm", [&](auto type) {
    using T = decltype(type);
    const int64_t dim = x.size(-1), rows = dim == 0 ? 0 : x.numel() / dim;
    Normed n{delta ? torch::empty_like(x) : x, torch::empty_like(x),
             torch::empty({rows}, x.options()), torch::empty({rows}, x.options())};
    const NormForwardCall<T> call{x.data_ptr<T>(),
                                  delta ? delta->data_ptr<T>() : nullptr,
                                  weight.data_ptr<T>(),
                                  bias ? bias->data_ptr<T>() : nullptr,
                                  n.sum.data_ptr<T>(),
                                  n.y.data_ptr<T>(),
                                  n.mean.data_ptr<T>(),
                                  n.scale.data_ptr<T>(),
                                  dim,
                                  eps,
                                  centered};
    for_each_row_block(rows, [&](int64_t, int64_t first, int64_t count) {
      row_kernels<T>().norm(call, first, count);
    });
    return n;
  });
}

struct NormGradient {
  Tensor dx, d_weight, d_bias;
};

NormGradient norm_backward(const Tensor& dy, const Tensor* d_sum, const Tensor& x,
                           const Tensor& mean, const Tensor& scale, const Tensor& weight,
                           bool centered, bool has_bias) {
  return with_type(x, "norm", [&](auto type) {
    using T = decltype(type);
    const int64_t dim = x.size(-1), rows = dim == 0 ? 0 : x.numel() / dim;
    NormGradient g{torch::empty_like(x), {}, {}};
    const NormBackwardCall<T> call{dy.data_ptr<T>(),
                                   d_sum ? d_sum->data_ptr<T>() : nullptr,
                                   x.data_ptr<T>(),
                                   mean.data_ptr<T>(),
                                   scale.data_ptr<T>(),
                                   weight.data_ptr<T>(),
                                   g.dx.data_ptr<T>(),
                                   dim,
                                   centered};
    const int64_t width = has_bias ? 2 * dim : dim;  // of a block's partial sums: weight, then bias
    const Tensor partials =
        torch::zeros({std::max<int64_t>(1, row_blocks(rows)), width}, x.options());
    for_each_row_block(rows, [&](int64_t block, int64_t first, int64_t count) {
      T* sums = partials.data_ptr<T>() + block * width;
      row_kernels<T>().norm_backward(call, first, count, sums, has_bias ? sums + dim : nullptr);
    });
    const Tensor sums = add_blocks<T>(partials);
    g.d_weight = sums.narrow(0, 0, dim).clone();
    if (has_bias) g.d_bias = sums.narrow(0, dim, dim).clone();
    return g;
  });
}

struct Norm : torch::autograd::Function<Norm> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x_given, const Tensor& weight,
                        const Optional& bias, double eps, bool centered) {
    const Tensor x = x_given.contiguous();
    const Normed n = norm_forward(x, nullptr, weight, bias ? &*bias : nullptr, eps, centered);
    ctx->save_for_backward({x, n.mean, n.scale, weight});
    ctx->saved_data["centered"] = centered;
    ctx->saved_data["has_bias"] = bias.has_value();
    return n.y;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list s = ctx->get_saved_variables();
    const NormGradient g =
        norm_backward(grads[0].contiguous(), nullptr, s[0], s[1], s[2], s[3],
                      ctx->saved_data["centered"].toBool(), ctx->saved_data["has_bias"].toBool());
    return {g.dx, g.d_weight, g.d_bias, {}, {}};
  }
};

struct AddNorm : torch::autograd::Function<AddNorm> {
  static variable_list forward(AutogradContext* ctx, const Tensor& x_given,
                               const Tensor& delta_given, const Tensor& weight,
                               const Optional& bias, double eps, bool centered) {
    const Tensor x = x_given.contiguous(), delta = delta_given.contiguous();
    const Normed n = norm_forward(x, &delta, weight, bias ? &*bias : nullptr, eps, centered);
    ctx->save_for_backward({n.sum, n.mean, n.scale, weight});
    ctx->saved_data["centered"] = centered;
    ctx->saved_data["has_bias"] = bias.has_value();
    return {n.sum, n.y};
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list s = ctx->get_saved_variables();
    const Tensor d_sum = grads[0].contiguous();
    const NormGradient g =
        norm_backward(grads[1].contiguous(), &d_sum, s[0], s[1], s[2], s[3],
                      ctx->saved_data["centered"].toBool(), ctx->saved_data["has_bias"].toBool());
    return {g.dx, g.dx, g.d_weight, g.d_bias, {}, {}};
  }
};

void check_norm(const Tensor& x, const Tensor& weight, const char* layer) {
  if (x.dim() < 1 || weight.dim() != 1 || weight.size(0) != x.size(-1) || !weight.is_contiguous()) {
    fail(ErrorCode::kInvalidArgument,
         "{}: weight must be [dim] with dim the last size of x; found x {} weight {}", layer,
         c10::str(x.sizes()), c10::str(weight.sizes()));
  }
}

void check_delta(const Tensor& x, const Tensor& delta, const char* layer) {
  if (x.sizes() != delta.sizes()) {
    fail(ErrorCode::kInvalidArgument, "{}: x and delta must have one shape; found {} and {}", layer,
         c10::str(x.sizes()), c10::str(delta.sizes()));
  }
}

Optional optional(const Tensor& x) { return x.defined() ? Optional(x.contiguous()) : Optional(); }

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  check_norm(x, weight, "layer_norm");
  return Norm::apply(x, weight, optional(bias), eps, true);
}

std::tuple<Tensor, Tensor> add_layer_norm(const Tensor& x, const Tensor& delta,
                                          const Tensor& weight, const Tensor& bias, double eps) {
  check_norm(x, weight, "add_layer_norm");
  check_delta(x, delta, "add_layer_norm");
  const variable_list r = AddNorm::apply(x, delta, weight, optional(bias), eps, true);
  return {r[0], r[1]};
}

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  check_norm(x, weight, "rms_norm");
  return Norm::apply(x, weight, Optional(), eps, false);
}

std::tuple<Tensor, Tensor> add_rms_norm(const Tensor& x, const Tensor& delta, const Tensor& weight,
                                        double eps) {
  check_norm(x, weight, "add_rms_norm");
  check_delta(x, delta, "add_rms_norm");
  const variable_list r = AddNorm::apply(x, delta, weight, Optional(), eps, false);
  return {r[0], r[1]};
}

}  // namespace craton::tensor
