#include "craton/model/token_groups.h"

#include <algorithm>

namespace craton::model {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Rows `from` of x [n, width], with a gradient that goes the way back by rows `back` of its own.
/// Rows with `used` false have none.
struct TakeRows : torch::autograd::Function<TakeRows> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& from,
                        const Tensor& back, const c10::optional<Tensor>& used) {
    context->save_for_backward({back, used.value_or(Tensor())});
    return x.index_select(0, from);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    Tensor gradient = gradients[0].index_select(0, saved[0]);
    if (saved[1].defined()) gradient.mul_(saved[1].unsqueeze(1));
    return {gradient, {}, {}, {}};
  }
};

/// `rows` of a window's table for each of `batch` windows that lie one after the other, `stride`
/// rows each.
Tensor for_each_window(const Tensor& rows, int64_t batch, int64_t stride) {
  if (batch == 1) return rows;
  return (torch::arange(batch, torch::kInt64).mul(stride).unsqueeze(1) + rows).flatten();
}

Tensor in_rows(const Tensor& x) { return x.flatten(2).flatten(0, 1); }

std::vector<int64_t> with_front(const Tensor& x, int64_t first, int64_t second) {
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes[0] = first;
  sizes[1] = second;
  return sizes;
}

/// One axis cut into boxes.
struct Axis {
  int64_t extent, lead, boxes;
  int64_t box_of(int64_t i) const { return (i + lead) / extent; }
};

}  // namespace

TokenGroups box_groups(const PatchGrid& grid, const std::vector<int64_t>& extents, bool displaced) {
  const auto count = grid.count();
  std::array<Axis, 3> axes{};
  TokenGroups out{.groups = 1, .size = 1, .token = {}, .used = {}, .place = {}};
  for (size_t a = 0; a < 3; ++a) {
    const size_t first = 3 - extents.size();
    const int64_t extent = a < first ? 1 : std::min(extents[a - first], count[a]);
    const int64_t lead = displaced && a > first && extent < count[a] ? extent / 2 : 0;
    axes[a] = {extent, lead, (count[a] + lead + extent - 1) / extent};
    out.groups *= axes[a].boxes;
    out.size *= extent;
  }
  out.token = torch::zeros({out.groups * out.size}, torch::kInt64);
  out.place = torch::empty({grid.tokens()}, torch::kInt64);
  auto* token = out.token.data_ptr<int64_t>();
  auto* place = out.place.data_ptr<int64_t>();
  std::vector<int64_t> taken(static_cast<size_t>(out.groups), 0);
  int64_t t = 0;
  for (int64_t z = 0; z < count[0]; ++z) {
    for (int64_t y = 0; y < count[1]; ++y) {
      for (int64_t x = 0; x < count[2]; ++x, ++t) {
        const int64_t group =
            (axes[0].box_of(z) * axes[1].boxes + axes[1].box_of(y)) * axes[2].boxes +
            axes[2].box_of(x);
        place[t] = group * out.size + taken[static_cast<size_t>(group)]++;
        token[place[t]] = t;
      }
    }
  }
  if (out.groups * out.size > grid.tokens()) {
    out.used = torch::zeros({out.groups * out.size}, torch::kBool)
                   .index_fill_(0, out.place, true)
                   .view({out.groups, out.size});
  }
  return out;
}

Tensor to_groups(const Tensor& x, const TokenGroups& g) {
  const int64_t batch = x.size(0), places = g.groups * g.size;
  return TakeRows::apply(in_rows(x), for_each_window(g.token, batch, x.size(1)),
                         for_each_window(g.place, batch, places), c10::nullopt)
      .view(with_front(x, batch * g.groups, g.size));
}

Tensor from_groups(const Tensor& x, const TokenGroups& g) {
  const int64_t batch = x.size(0) / g.groups, tokens = g.place.size(0);
  const c10::optional<Tensor> used =
      g.used.defined() ? c10::optional<Tensor>(g.used.flatten().repeat(batch)) : c10::nullopt;
  return TakeRows::apply(in_rows(x), for_each_window(g.place, batch, g.groups * g.size),
                         for_each_window(g.token, batch, tokens), used)
      .view(with_front(x, batch, tokens));
}

Tensor permute_tokens(const Tensor& x, const Tensor& order) {
  const int64_t batch = x.size(0), tokens = x.size(1);
  const Tensor first = torch::arange(batch, torch::kInt64).mul(tokens).unsqueeze(1);
  return TakeRows::apply(in_rows(x), (order + first).flatten(),
                         (inverse_of(order) + first).flatten(), c10::nullopt)
      .view(x.sizes());
}

Tensor inverse_of(const Tensor& order) {
  return torch::empty_like(order).scatter_(
      1, order, torch::arange(order.size(1), torch::kInt64).expand_as(order));
}

}  // namespace craton::model
