#include "craton/tensor/attention.h"

#include <cmath>

#include "craton/base/error.h"
#include "craton/tensor/attention_block.h"
#include "craton/tensor/head_exchange.h"

namespace craton::tensor {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The options that autograd has to carry from forward to backward.
struct Options {
  double scale;
  bool causal;
  int64_t window;
};

template <typename T>
HeadRows<T> rows(const Tensor& x) {
  return {x.data_ptr<std::remove_const_t<T>>(), x.stride(0), x.stride(1), x.stride(2)};
}

AttentionShape shape_of(const Tensor& q, const Tensor& k) {
  return {q.size(0), q.size(1), k.size(1), q.size(2), k.size(2), q.size(3)};
}

AttentionMask mask_of(const Options& o, const AttentionShape& shape, const Tensor& key_mask) {
  AttentionMask mask{o.causal, o.window, o.causal ? shape.keys - shape.queries : 0};
  if (key_mask.defined()) {
    mask.key_mask = key_mask.data_ptr<bool>();
    mask.key_mask_stride = key_mask.stride(0);
  }
  return mask;
}

/// Returns (out, lse).
template <typename T>
std::pair<Tensor, Tensor> forward_typed(const Tensor& q, const Tensor& k, const Tensor& v,
                                        const Tensor& sinks, const Tensor& key_mask,
                                        const Options& o) {
  const AttentionShape shape = shape_of(q, k);
  Tensor out = torch::empty({shape.batch, shape.queries, shape.heads, shape.head_dim}, q.options());
  Tensor lse = torch::empty({shape.batch, shape.heads, shape.queries}, q.options());
  Tensor max = torch::empty_like(lse), sum = torch::empty_like(lse);
  const AttentionState<T> state{rows<T>(out), max.data_ptr<T>(), sum.data_ptr<T>()};
  attention_begin<T>(shape, state);
  attention_forward_block<T>(shape, mask_of(o, shape, key_mask), o.scale, rows<const T>(q),
                             rows<const T>(k), rows<const T>(v), state);
  attention_finish<T>(shape, state, sinks.defined() ? sinks.data_ptr<T>() : nullptr,
                      lse.data_ptr<T>());
  return {out, lse};
}

/// Overwrites dq, dk and dv; returns the gradient of the sinks, if there are any.
template <typename T>
Tensor backward_typed(const Tensor& d_out, const Tensor& q, const Tensor& k, const Tensor& v,
                      const Tensor& sinks, const Tensor& key_mask, const Tensor& out,
                      const Tensor& lse, const Options& o, const Tensor& dq, const Tensor& dk,
                      const Tensor& dv) {
  const AttentionShape shape = shape_of(q, k);
  Tensor dots = torch::empty_like(lse);
  attention_row_dots<T>(shape, rows<const T>(d_out), rows<const T>(out), dots.data_ptr<T>());
  if (shape.queries == 0) {
    dk.zero_();
    dv.zero_();
  } else {
    attention_backward_block<T>(shape, mask_of(o, shape, key_mask), o.scale, rows<const T>(q),
                                rows<const T>(k), rows<const T>(v), rows<const T>(d_out),
                                lse.data_ptr<T>(), dots.data_ptr<T>(), rows<T>(dq), rows<T>(dk),
                                rows<T>(dv), false);
  }
  if (!sinks.defined()) return {};
  // dz_h = - sum over queries of exp(z_h - lse) * dot
  return -(torch::exp(sinks.view({1, -1, 1}) - lse) * dots).sum(at::IntArrayRef({0, 2}));
}

std::pair<Tensor, Tensor> forward(const Tensor& q, const Tensor& k, const Tensor& v,
                                  const Tensor& sinks, const Tensor& key_mask, const Options& o) {
  return q.scalar_type() == torch::kDouble ? forward_typed<double>(q, k, v, sinks, key_mask, o)
                                           : forward_typed<float>(q, k, v, sinks, key_mask, o);
}

Tensor backward(const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v,
                const Tensor& sinks, const Tensor& key_mask, const Tensor& out, const Tensor& lse,
                const Options& o, const Tensor& dq, const Tensor& dk, const Tensor& dv) {
  const Tensor d_out = grad.stride(3) == 1 ? grad : grad.contiguous();
  return q.scalar_type() == torch::kDouble
             ? backward_typed<double>(d_out, q, k, v, sinks, key_mask, out, lse, o, dq, dk, dv)
             : backward_typed<float>(d_out, q, k, v, sinks, key_mask, out, lse, o, dq, dk, dv);
}

void save_options(AutogradContext* ctx, const Options& o) {
  ctx->saved_data["scale"] = o.scale;
  ctx->saved_data["causal"] = o.causal;
  ctx->saved_data["window"] = o.window;
}

Options saved_options(AutogradContext* ctx) {
  return {ctx->saved_data["scale"].toDouble(), ctx->saved_data["causal"].toBool(),
          ctx->saved_data["window"].toInt()};
}

struct Attention : torch::autograd::Function<Attention> {
  static Tensor forward(AutogradContext* ctx, const Tensor& q, const Tensor& k, const Tensor& v,
                        const c10::optional<Tensor>& sinks_given,
                        const c10::optional<Tensor>& key_mask_given, double scale, bool causal,
                        int64_t window) {
    const Options o{scale, causal, window};
    const Tensor sinks = sinks_given.value_or(Tensor()),
                 key_mask = key_mask_given.value_or(Tensor());
    auto [out, lse] = tensor::forward(q, k, v, sinks, key_mask, o);
    ctx->save_for_backward({q, k, v, sinks, key_mask, out, lse});
    save_options(ctx, o);
    return out;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list s = ctx->get_saved_variables();
    const Tensor &q = s[0], &k = s[1], &v = s[2];
    const Tensor dq = torch::empty(q.sizes(), q.options()),
                 dk = torch::empty(k.sizes(), k.options()),
                 dv = torch::empty(v.sizes(), v.options());
    Tensor d_sinks =
        tensor::backward(grads[0], q, k, v, s[3], s[4], s[5], s[6], saved_options(ctx), dq, dk, dv);
    return {dq, dk, dv, d_sinks, {}, {}, {}, {}};
  }
};

/// Over all workers of a context; the scope outlives the graph.
struct ContextAttention : torch::autograd::Function<ContextAttention> {
  static Tensor forward(AutogradContext* ctx, const Tensor& q, const Tensor& k, const Tensor& v,
                        const c10::optional<Tensor>& sinks_given,
                        const c10::optional<Tensor>& key_mask_given, double scale, bool causal,
                        int64_t window, int64_t scope) {
    SharedAttention shared = shared_forward(
        *reinterpret_cast<const ContextScope*>(scope), q, k, v, sinks_given.value_or(Tensor()),
        key_mask_given.value_or(Tensor()), {scale, causal, window});
    ctx->save_for_backward(shared.saved);
    save_options(ctx, {scale, causal, window});
    ctx->saved_data["scope"] = scope;
    ctx->saved_data["heads"] = q.size(2);
    ctx->saved_data["kv_heads"] = k.size(2);
    ctx->saved_data["counts"] = shared.counts;
    return shared.out;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const Options o = saved_options(ctx);
    const auto* scope = reinterpret_cast<const ContextScope*>(ctx->saved_data["scope"].toInt());
    auto g =
        shared_backward(*scope, grads[0], ctx->saved_data["heads"].toInt(),
                        ctx->saved_data["kv_heads"].toInt(), ctx->get_saved_variables(),
                        ctx->saved_data["counts"].toIntVector(), {o.scale, o.causal, o.window});
    return {g.dq, g.dk, g.dv, g.d_sinks, {}, {}, {}, {}, {}};
  }
};

struct Parts {
  Tensor q, k, v;
};

Parts parts_of(const Tensor& qkv, int64_t kv_heads) {
  const int64_t heads = qkv.size(2) - 2 * kv_heads;
  return {qkv.narrow(2, 0, heads), qkv.narrow(2, heads, kv_heads),
          qkv.narrow(2, heads + kv_heads, kv_heads)};
}

struct AttentionPacked : torch::autograd::Function<AttentionPacked> {
  static Tensor forward(AutogradContext* ctx, const Tensor& qkv,
                        const c10::optional<Tensor>& sinks_given,
                        const c10::optional<Tensor>& key_mask_given, int64_t kv_heads, double scale,
                        bool causal, int64_t window) {
    const Options o{scale, causal, window};
    const Tensor sinks = sinks_given.value_or(Tensor()),
                 key_mask = key_mask_given.value_or(Tensor());
    const Parts p = parts_of(qkv, kv_heads);
    auto [out, lse] = tensor::forward(p.q, p.k, p.v, sinks, key_mask, o);
    ctx->save_for_backward({qkv, sinks, key_mask, out, lse});
    ctx->saved_data["kv_heads"] = kv_heads;
    save_options(ctx, o);
    return out;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list s = ctx->get_saved_variables();
    const Parts p = parts_of(s[0], ctx->saved_data["kv_heads"].toInt());
    const Tensor d_qkv = torch::empty(s[0].sizes(), s[0].options());
    const Parts d = parts_of(d_qkv, p.k.size(2));
    Tensor d_sinks = tensor::backward(grads[0], p.q, p.k, p.v, s[1], s[2], s[3], s[4],
                                      saved_options(ctx), d.q, d.k, d.v);
    return {d_qkv, d_sinks, {}, {}, {}, {}, {}};
  }
};

void require(bool condition, const char* what, const Tensor& q, const Tensor& k, const Tensor& v) {
  if (condition) return;
  fail(ErrorCode::kInvalidArgument, "attention: {}; found q {} k {} v {}", what,
       c10::str(q.sizes()), c10::str(k.sizes()), c10::str(v.sizes()));
}

void check_inputs(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& o) {
  require(q.dim() == 4 && k.dim() == 4 && v.dim() == 4,
          "q, k and v must be [batch, tokens, heads, head_dim]", q, k, v);
  require(k.sizes() == v.sizes(), "k and v must have the same shape", q, k, v);
  require(q.size(0) == k.size(0) && q.size(3) == k.size(3),
          "q and k must agree in batch and head_dim", q, k, v);
  require(q.size(3) > 0, "head_dim must be positive", q, k, v);
  require(k.size(2) > 0 && q.size(2) % k.size(2) == 0, "kv heads must divide the query heads", q, k,
          v);
  require(o.window >= 0, "window must not be negative", q, k, v);
  const auto type = q.scalar_type();
  if (type != torch::kFloat && type != torch::kDouble) {
    fail(ErrorCode::kUnsupported, "attention: takes float or double, found {}",
         c10::toString(type));
  }
  require(k.scalar_type() == type && v.scalar_type() == type, "q, k and v must have one type", q, k,
          v);
  require(q.device().is_cpu() && k.device().is_cpu() && v.device().is_cpu(),
          "q, k and v must be on the CPU", q, k, v);
  require(!o.sinks.defined() ||
              (o.sinks.dim() == 1 && o.sinks.size(0) == q.size(2) && o.sinks.scalar_type() == type),
          "sinks must be [heads] of q's type", q, k, v);
  require(!o.key_mask.defined() ||
              (o.key_mask.dim() == 2 && o.key_mask.size(0) == k.size(0) &&
               o.key_mask.size(1) == k.size(1) && o.key_mask.scalar_type() == torch::kBool),
          "key_mask must be bool [batch, key_tokens]", q, k, v);
}

Tensor unit_last_stride(const Tensor& x) {
  return x.size(3) == 1 || x.stride(3) == 1 ? x : x.contiguous();
}

/// Autograd takes an absent tensor as an empty optional only.
c10::optional<Tensor> contiguous(const Tensor& x) {
  return x.defined() ? c10::optional<Tensor>(x.contiguous()) : c10::nullopt;
}

double scale_of(const AttentionOptions& o, int64_t head_dim) {
  return o.scale ? *o.scale : 1.0 / std::sqrt(double(head_dim));
}

}  // namespace

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& o) {
  check_inputs(q, k, v, o);
  if (const ContextScope* scope = ContextScope::current()) {
    return ContextAttention::apply(unit_last_stride(q), unit_last_stride(k), unit_last_stride(v),
                                   contiguous(o.sinks), contiguous(o.key_mask),
                                   scale_of(o, q.size(3)), o.causal, o.window,
                                   reinterpret_cast<int64_t>(scope));
  }
  return Attention::apply(unit_last_stride(q), unit_last_stride(k), unit_last_stride(v),
                          contiguous(o.sinks), contiguous(o.key_mask), scale_of(o, q.size(3)),
                          o.causal, o.window);
}

Tensor attention_packed(const Tensor& qkv, const AttentionOptions& o, int64_t kv_heads) {
  if (qkv.dim() != 4 || (kv_heads == 0 && qkv.size(2) % 3 != 0) || kv_heads < 0 ||
      2 * kv_heads >= qkv.size(2)) {
    fail(ErrorCode::kInvalidArgument,
         "attention: qkv must be [batch, tokens, heads + 2 kv_heads, head_dim]; found {} with "
         "kv_heads {}",
         c10::str(qkv.sizes()), kv_heads);
  }
  if (kv_heads == 0) kv_heads = qkv.size(2) / 3;
  if (ContextScope::current() != nullptr) {
    const Parts p = parts_of(qkv, kv_heads);
    return attention(p.q, p.k, p.v, o);
  }
  const Tensor packed = unit_last_stride(qkv);
  const Parts p = parts_of(packed.detach(), kv_heads);
  check_inputs(p.q, p.k, p.v, o);
  return AttentionPacked::apply(packed, contiguous(o.sinks), contiguous(o.key_mask), kv_heads,
                                scale_of(o, qkv.size(3)), o.causal, o.window);
}

}  // namespace craton::tensor
