#include "craton/tensor/layers.h"
#include "craton/tensor/row_blocks.h"

namespace craton::tensor {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Optional = c10::optional<Tensor>;

/// [..., n] -> [rows, n], contiguous.
Tensor matrix(const Tensor& x) { return x.reshape({-1, x.size(-1)}).contiguous(); }

/// The sizes of x with another last one.
std::vector<int64_t> with_last(const Tensor& x, int64_t last) {
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes.back() = last;
  return sizes;
}

/// Autograd takes an absent tensor as an empty optional only.
Optional optional(const Tensor& x) { return x.defined() ? Optional(x) : Optional(); }

Tensor product(const Tensor& x, const Tensor& weight, const Optional& bias) {
  return bias ? at::addmm(*bias, x, weight.t()) : at::mm(x, weight.t());
}

Tensor column_sums(const Tensor& x) {
  return with_type(x, "linear", [&](auto type) { return column_sum<decltype(type)>(x); });
}

struct Linear : torch::autograd::Function<Linear> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight,
                        const Optional& bias) {
    const Tensor rows = matrix(x);  // [rows, in]
    ctx->save_for_backward({rows, weight});
    ctx->saved_data["sizes"] = x.sizes();
    ctx->saved_data["wants_x"] = x.requires_grad();
    ctx->saved_data["wants_weight"] = weight.requires_grad();
    ctx->saved_data["wants_bias"] = bias && bias->requires_grad();
    return product(rows, weight, bias).view(with_last(x, weight.size(0)));
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list s = ctx->get_saved_variables();
    const Tensor dy = matrix(grads[0]);
    Tensor dx, d_weight, d_bias;
    if (ctx->saved_data["wants_x"].toBool())
      dx = at::mm(dy, s[1]).view(ctx->saved_data["sizes"].toIntVector());
    if (ctx->saved_data["wants_weight"].toBool()) d_weight = at::mm(dy.t(), s[0]);
    if (ctx->saved_data["wants_bias"].toBool()) d_bias = column_sums(dy);
    return {dx, d_weight, d_bias};
  }
};

Tensor gelu_of(const Tensor& before) {
  Tensor after = torch::empty_like(before);
  with_type(before, "gelu", [&](auto type) {
    using T = decltype(type);
    const int64_t dim = before.size(1);
    for_each_row_block(before.size(0), [&](int64_t, int64_t first, int64_t n) {
      row_kernels<T>().gelu(before.data_ptr<T>() + first * dim, after.data_ptr<T>() + first * dim,
                            n * dim);
    });
    return 0;
  });
  return after;
}

struct GeluGradient {
  Tensor after;   ///< gelu(before) once more
  Tensor d_bias;  ///< columns of d_before
};

/// Turns d_after into d_before in place.
GeluGradient gelu_gradient(const Tensor& before, Tensor& gradient) {
  GeluGradient result{torch::empty_like(before), {}};
  result.d_bias = with_type(before, "gelu", [&](auto type) {
    using T = decltype(type);
    const int64_t rows = before.size(0), dim = before.size(1);
    const Tensor partials =
        torch::zeros({std::max<int64_t>(1, row_blocks(rows)), dim}, before.options());
    for_each_row_block(rows, [&](int64_t block, int64_t first, int64_t n) {
      row_kernels<T>().gelu_backward(
          before.data_ptr<T>() + first * dim, gradient.data_ptr<T>() + first * dim,
          result.after.data_ptr<T>() + first * dim, partials.data_ptr<T>() + block * dim, n, dim);
    });
    return add_blocks<T>(partials);
  });
  return result;
}

struct LinearGelu : torch::autograd::Function<LinearGelu> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight,
                        const Optional& bias) {
    const Tensor rows = matrix(x), before = product(rows, weight, bias);
    ctx->save_for_backward({rows, weight, before});
    ctx->saved_data["sizes"] = x.sizes();
    ctx->saved_data["wants_x"] = x.requires_grad();
    ctx->saved_data["wants_bias"] = bias && bias->requires_grad();
    return gelu_of(before).view(with_last(x, weight.size(0)));
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list s = ctx->get_saved_variables();
    Tensor gradient = matrix(grads[0]).clone();
    const GeluGradient g = gelu_gradient(s[2], gradient);
    Tensor dx;
    if (ctx->saved_data["wants_x"].toBool())
      dx = at::mm(gradient, s[1]).view(ctx->saved_data["sizes"].toIntVector());
    return {dx, at::mm(gradient.t(), s[0]),
            ctx->saved_data["wants_bias"].toBool() ? g.d_bias : Tensor()};
  }
};

struct GeluMlp : torch::autograd::Function<GeluMlp> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& w1, const Optional& b1,
                        const Tensor& w2, const Optional& b2) {
    const Tensor rows = matrix(x), before = product(rows, w1, b1);
    ctx->save_for_backward({rows, w1, w2, before});
    ctx->saved_data["sizes"] = x.sizes();
    ctx->saved_data["wants_x"] = x.requires_grad();
    ctx->saved_data["wants_b1"] = b1 && b1->requires_grad();
    ctx->saved_data["wants_b2"] = b2 && b2->requires_grad();
    return product(gelu_of(before), w2, b2).view(with_last(x, w2.size(0)));
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list s = ctx->get_saved_variables();
    const Tensor &x = s[0], &w1 = s[1], &w2 = s[2], &before = s[3];
    const Tensor dy = matrix(grads[0]);
    Tensor gradient = at::mm(dy, w2);  // [rows, hidden]
    const GeluGradient g = gelu_gradient(before, gradient);
    Tensor dx;
    if (ctx->saved_data["wants_x"].toBool())
      dx = at::mm(gradient, w1).view(ctx->saved_data["sizes"].toIntVector());
    return {dx, at::mm(gradient.t(), x), ctx->saved_data["wants_b1"].toBool() ? g.d_bias : Tensor(),
            at::mm(dy.t(), g.after),
            ctx->saved_data["wants_b2"].toBool() ? column_sums(dy) : Tensor()};
  }
};

struct SiluMul : torch::autograd::Function<SiluMul> {
  static Tensor forward(AutogradContext* ctx, const Tensor& gate, const Tensor& up) {
    const Tensor g = gate.contiguous(), u = up.contiguous();
    Tensor out = torch::empty_like(g);
    with_type(g, "silu_mul", [&](auto type) {
      using T = decltype(type);
      at::parallel_for(0, g.numel(), 1 << 14, [&](int64_t begin, int64_t end) {
        row_kernels<T>().silu_mul(g.data_ptr<T>() + begin, u.data_ptr<T>() + begin,
                                  out.data_ptr<T>() + begin, end - begin);
      });
      return 0;
    });
    ctx->save_for_backward({g, u});
    return out;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list s = ctx->get_saved_variables();
    const Tensor dy = grads[0].contiguous();
    Tensor dg = torch::empty_like(dy), du = torch::empty_like(dy);
    with_type(dy, "silu_mul", [&](auto type) {
      using T = decltype(type);
      at::parallel_for(0, dy.numel(), 1 << 14, [&](int64_t begin, int64_t end) {
        row_kernels<T>().silu_mul_backward(s[0].data_ptr<T>() + begin, s[1].data_ptr<T>() + begin,
                                           dy.data_ptr<T>() + begin, dg.data_ptr<T>() + begin,
                                           du.data_ptr<T>() + begin, end - begin);
      });
      return 0;
    });
    return {dg, du};
  }
};

void check_linear(const Tensor& x, const Tensor& weight, const char* layer) {
  if (weight.dim() != 2 || x.dim() < 1 || x.size(-1) != weight.size(1)) {
    fail(ErrorCode::kInvalidArgument,
         "{}: weight must be [out, in] with in the last size of x; found x {} weight {}", layer,
         c10::str(x.sizes()), c10::str(weight.sizes()));
  }
}

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  check_linear(x, weight, "linear");
  return Linear::apply(x, weight, optional(bias));
}

Tensor linear_gelu(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  check_linear(x, weight, "linear_gelu");
  return LinearGelu::apply(x, weight, optional(bias));
}

Tensor gelu_mlp(const Tensor& x, const Tensor& w1, const Tensor& b1, const Tensor& w2,
                const Tensor& b2) {
  check_linear(x, w1, "gelu_mlp");
  if (w2.dim() != 2 || w2.size(1) != w1.size(0)) {
    fail(ErrorCode::kInvalidArgument, "gelu_mlp: w2 must be [out, {}], found {}", w1.size(0),
         c10::str(w2.sizes()));
  }
  return GeluMlp::apply(x, w1, optional(b1), w2, optional(b2));
}

Tensor silu_mul(const Tensor& gate, const Tensor& up) {
  if (gate.sizes() != up.sizes()) {
    fail(ErrorCode::kInvalidArgument, "silu_mul: gate and up must have one shape; found {} and {}",
         c10::str(gate.sizes()), c10::str(up.sizes()));
  }
  return SiluMul::apply(gate, up);
}

}  // namespace craton::tensor
