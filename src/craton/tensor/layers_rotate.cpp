#include "craton/tensor/layers.h"
#include "craton/tensor/row_blocks.h"

namespace craton::tensor {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// y = x turned by sign times the angle, in the first `heads` heads. x has last stride 1, cos and
/// sin are contiguous.
void turn(const Tensor& x, const Tensor& y, const Tensor& cos, const Tensor& sin, int64_t heads,
          double sign) {
  with_type(x, "rotate", [&](auto type) {
    using T = decltype(type);
    const int64_t tokens = x.size(1), turned = cos.size(-1), half = x.size(3) / 2;
    const RowKernelTable<T> kernels = row_kernels<T>();
    const int64_t batch_stride = cos.dim() == 3 ? tokens * turned : 0;
    for_each_row_block(x.size(0) * tokens, [&](int64_t, int64_t first, int64_t n) {
      for (int64_t row = first; row < first + n; ++row) {
        const int64_t batch = row / tokens, token = row % tokens,
                      angle = batch * batch_stride + token * turned;
        const T* from = x.data_ptr<T>() + batch * x.stride(0) + token * x.stride(1);
        T* to = y.data_ptr<T>() + batch * y.stride(0) + token * y.stride(1);
        for (int64_t head = 0; head < x.size(2); ++head, from += x.stride(2), to += y.stride(2)) {
          if (head < heads) {
            kernels.rotate(from, to, cos.data_ptr<T>() + angle, sin.data_ptr<T>() + angle, turned,
                           half, T(sign));
          } else {
            std::copy(from, from + 2 * half, to);
          }
        }
      }
    });
    return 0;
  });
}

struct Rotate : torch::autograd::Function<Rotate> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& cos, const Tensor& sin,
                        int64_t heads) {
    ctx->saved_data["heads"] = heads;
    ctx->save_for_backward({cos, sin});
    Tensor y = torch::empty(x.sizes(), x.options());
    turn(x, y, cos, sin, heads, 1);
    return y;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list s = ctx->get_saved_variables();
    const Tensor dy = grads[0].contiguous();
    Tensor dx = torch::empty_like(dy);
    turn(dy, dx, s[0], s[1], ctx->saved_data["heads"].toInt(), -1);
    return {dx, {}, {}, {}};
  }
};

}  // namespace

Tensor rotate(const Tensor& x, const Tensor& cos, const Tensor& sin, int64_t heads) {
  const bool shapes = x.dim() == 4 && x.size(3) % 2 == 0 && cos.sizes() == sin.sizes() &&
                      (cos.dim() == 2 || (cos.dim() == 3 && cos.size(0) == x.size(0))) &&
                      cos.size(-2) == x.size(1) && cos.size(-1) <= x.size(3) / 2 &&
                      cos.scalar_type() == x.scalar_type() && sin.scalar_type() == x.scalar_type();
  if (!shapes) {
    fail(ErrorCode::kInvalidArgument,
         "rotate: x must be [batch, tokens, heads, even head_dim], cos and sin [(batch,) tokens, "
         "at most head_dim / 2] of "
         "x's type; found x {} cos {} sin {}",
         c10::str(x.sizes()), c10::str(cos.sizes()), c10::str(sin.sizes()));
  }
  return Rotate::apply(x.stride(3) == 1 ? x : x.contiguous(), cos.contiguous(), sin.contiguous(),
                       heads < 0 ? x.size(2) : heads);
}

}  // namespace craton::tensor
