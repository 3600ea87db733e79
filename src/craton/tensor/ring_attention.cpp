#include "craton/tensor/ring_attention.h"

#include <functional>
#include <optional>

#include "craton/base/check.h"
#include "craton/base/error.h"

namespace craton::tensor {
namespace {

using torch::Tensor;

template <typename T>
HeadRows<T> rows(const Tensor& x, int64_t first = 0) {
  return {x.data_ptr<std::remove_const_t<T>>() + first * x.stride(1), x.stride(0), x.stride(1),
          x.stride(2)};
}

/// Keys and values of one peer: [batch, tokens, kv_heads, head_dim] each, and the mask of its keys.
struct KeyBlock {
  Tensor k, v, mask;
  int64_t tokens() const { return k.size(1); }
};

/// A run of queries against a run of keys, both within their peer's tokens.
struct Pair {
  int64_t first_query, queries, first_key, keys;
  int64_t offset;  ///< position of the first query, counted from the first key
};

bool sees_any(const Pair& p, const RingOptions& o) {
  if (p.queries == 0 || p.keys == 0) return false;
  const int64_t last_query = p.offset + p.queries - 1;  // the first key stands at 0
  if (o.causal && last_query < 0) return false;
  if (o.window > 0 && p.keys - 1 <= p.offset - o.window) return false;
  return o.causal || o.window == 0 || last_query > -o.window;
}

class Ring {
 public:
  Ring(ContextPeers& peers, const ContextLayout& layout, const RingOptions& options,
       int64_t own_tokens)
      : peers_(peers), layout_(layout), options_(options) {
    const bool places = options.causal || options.window > 0;
    if (layout_.empty() && places) {
      fail(
          ErrorCode::kInvalidArgument,
          "attention with a causal mask or a window over several workers needs the places of their "
          "tokens; give the scope a layout");
    }
    if (layout_.empty()) return;
    int64_t tokens = 0;
    for (const TokenRun& run : layout_[static_cast<size_t>(self())]) tokens += run.count;
    if (tokens != own_tokens) {
      fail(ErrorCode::kInvalidArgument,
           "attention: this worker has {} tokens, and {} by the scope's layout", own_tokens,
           tokens);
    }
  }

  int self() const { return peers_.index(); }
  int size() const { return peers_.size(); }
  int at(int distance) const { return peers_.at(distance); }

  /// Pairs of the queries of `peer` with the keys of `other`, without those that see nothing.
  /// Unknown places (no layout): all queries with all keys, -1 for their counts.
  std::vector<Pair> pairs(int peer, int other) const {
    if (layout_.empty()) return {{0, -1, 0, -1, 0}};
    std::vector<Pair> out;
    int64_t first_query = 0;
    for (const TokenRun& q : layout_[static_cast<size_t>(peer)]) {
      int64_t first_key = 0;
      for (const TokenRun& k : layout_[static_cast<size_t>(other)]) {
        const Pair pair{first_query, q.count, first_key, k.count, q.first - k.first};
        if (sees_any(pair, options_)) out.push_back(pair);
        first_key += k.count;
      }
      first_query += q.count;
    }
    return out;
  }

  /// Calls visit(distance, keys) for the own block and then for that of each peer, nearest first,
  /// while the next one is on its way. Null: no own query sees a key of that peer.
  void walk(const KeyBlock& own, const std::function<void(int, const KeyBlock*)>& visit) {
    const Tensor packed = size() > 1 ? pack(own) : Tensor();
    auto coming = start(1, packed);
    visit(0, &own);
    for (int distance = 1; distance < size(); ++distance) {
      auto next = start(distance + 1, packed);
      if (coming) {
        const KeyBlock block = unpack(coming->bytes(), own);
        visit(distance, &block);
        coming->release();
      } else {
        visit(distance, nullptr);
      }
      coming = std::move(next);
    }
  }

  ContextPeers& peers() { return peers_; }

 private:
  std::unique_ptr<ContextPeers::Arrival> start(int distance, const Tensor& packed) {
    if (distance >= size()) return nullptr;
    const bool sends = !pairs(at(-distance), self()).empty();
    const bool wants = !pairs(self(), at(distance)).empty();
    return peers_.exchange(at(-distance), sends ? packed : Tensor(), at(distance), wants);
  }

  /// k, v, then one byte per key if keys are masked.
  Tensor pack(const KeyBlock& block) {
    const auto bytes = static_cast<int64_t>(block.k.nbytes());
    const int64_t masked = block.mask.defined() ? block.mask.numel() : 0;
    const Tensor packed = peers_.allocate({2 * bytes + masked}, torch::kByte);
    auto* data = packed.data_ptr<uint8_t>();
    torch::from_blob(data, block.k.sizes(), block.k.options()).copy_(block.k);
    torch::from_blob(data + bytes, block.v.sizes(), block.v.options()).copy_(block.v);
    if (masked > 0)
      torch::from_blob(data + 2 * bytes, block.mask.sizes(), block.mask.options())
          .copy_(block.mask);
    return packed;
  }

  KeyBlock unpack(std::span<const std::byte> bytes, const KeyBlock& like) const {
    std::vector<int64_t> sizes = like.k.sizes().vec();
    const int64_t width = sizes[2] * sizes[3] * static_cast<int64_t>(like.k.element_size());
    const int64_t per_token = sizes[0] * (2 * width + (like.mask.defined() ? 1 : 0));
    sizes[1] = static_cast<int64_t>(bytes.size()) / per_token;
    CRATON_CHECK(sizes[1] * per_token == static_cast<int64_t>(bytes.size()),
                 "{} bytes of keys and values", bytes.size());
    auto* data = const_cast<std::byte*>(bytes.data());
    const int64_t half = sizes[0] * sizes[1] * width;
    KeyBlock block{torch::from_blob(data, sizes, like.k.options()),
                   torch::from_blob(data + half, sizes, like.k.options()),
                   {}};
    if (like.mask.defined())
      block.mask = torch::from_blob(data + 2 * half, {sizes[0], sizes[1]}, like.mask.options());
    return block;
  }

  ContextPeers& peers_;
  const ContextLayout& layout_;
  const RingOptions options_;
};

/// What the kernel needs of one pair.
struct Call {
  AttentionShape shape;
  AttentionMask mask;
};

Call call_of(Pair& pair, const Tensor& q, const KeyBlock& block, const RingOptions& o) {
  if (pair.queries < 0) {
    pair.queries = q.size(1);
    pair.keys = block.tokens();
  }
  Call call{{q.size(0), pair.queries, pair.keys, q.size(2), block.k.size(2), q.size(3)},
            {o.causal, o.window, pair.offset}};
  if (block.mask.defined()) {
    call.mask.key_mask = block.mask.data_ptr<bool>() + pair.first_key;
    call.mask.key_mask_stride = block.mask.stride(0);
  }
  return call;
}

/// Rows of [batch, heads, n] that belong to a run of queries, in memory of their own: the kernel
/// takes them contiguous.
Tensor rows_of(const Tensor& x, const Pair& pair) {
  return x.narrow(2, pair.first_query, pair.queries).contiguous();
}

template <typename T>
void forward_block(Ring& ring, int distance, const Tensor& q, const KeyBlock& block, Tensor& out,
                   Tensor& max, Tensor& sum, const RingOptions& o) {
  for (Pair pair : ring.pairs(ring.self(), ring.at(distance))) {
    const Call call = call_of(pair, q, block, o);
    if (pair.queries == 0 || pair.keys == 0) continue;
    const bool whole = pair.queries == q.size(1);
    Tensor part_max = whole ? max : rows_of(max, pair), part_sum = whole ? sum : rows_of(sum, pair);
    const AttentionState<T> state{rows<T>(out, pair.first_query), part_max.data_ptr<T>(),
                                  part_sum.data_ptr<T>()};
    attention_forward_block<T>(call.shape, call.mask, o.scale, rows<const T>(q, pair.first_query),
                               rows<const T>(block.k, pair.first_key),
                               rows<const T>(block.v, pair.first_key), state);
    if (whole) continue;
    max.narrow(2, pair.first_query, pair.queries).copy_(part_max);
    sum.narrow(2, pair.first_query, pair.queries).copy_(part_sum);
  }
}

template <typename T>
std::pair<Tensor, Tensor> forward_typed(ContextPeers& peers, const ContextLayout& layout,
                                        const Tensor& q, const KeyBlock& own, const Tensor& sinks,
                                        const RingOptions& o) {
  Ring ring(peers, layout, o, q.size(1));
  const AttentionShape shape{q.size(0), q.size(1),     own.tokens(),
                             q.size(2), own.k.size(2), q.size(3)};
  Tensor out = torch::empty(q.sizes(), q.options());
  Tensor lse = torch::empty({q.size(0), q.size(2), q.size(1)}, q.options());
  Tensor max = torch::empty_like(lse), sum = torch::empty_like(lse);
  const AttentionState<T> state{rows<T>(out), max.data_ptr<T>(), sum.data_ptr<T>()};
  attention_begin<T>(shape, state);
  ring.walk(own, [&](int distance, const KeyBlock* block) {
    if (block != nullptr) forward_block<T>(ring, distance, q, *block, out, max, sum, o);
  });
  attention_finish<T>(shape, state, sinks.defined() ? sinks.data_ptr<T>() : nullptr,
                      lse.data_ptr<T>());
  ring.peers().settle();
  return {out, lse};
}

/// What backward carries from block to block.
struct Backward {
  const Tensor &q, &d_out, &lse, &dots;
  Tensor dq;
};

/// Adds the gradient of one block of keys to (dk, dv).
template <typename T>
void backward_block(Ring& ring, int distance, const Backward& b, const KeyBlock& block,
                    const Tensor& dk, const Tensor& dv, const RingOptions& o) {
  for (Pair pair : ring.pairs(ring.self(), ring.at(distance))) {
    const Call call = call_of(pair, b.q, block, o);
    if (pair.queries == 0 || pair.keys == 0) continue;
    const bool whole = pair.queries == b.q.size(1);
    const Tensor lse = whole ? b.lse : rows_of(b.lse, pair),
                 dots = whole ? b.dots : rows_of(b.dots, pair);
    attention_backward_block<T>(
        call.shape, call.mask, o.scale, rows<const T>(b.q, pair.first_query),
        rows<const T>(block.k, pair.first_key), rows<const T>(block.v, pair.first_key),
        rows<const T>(b.d_out, pair.first_query), lse.data_ptr<T>(), dots.data_ptr<T>(),
        rows<T>(b.dq, pair.first_query), rows<T>(dk, pair.first_key), rows<T>(dv, pair.first_key),
        true);
  }
}

template <typename T>
RingGradients backward_typed(ContextPeers& peers, const ContextLayout& layout, const Tensor& d_out,
                             const Tensor& q, const KeyBlock& own, const Tensor& sinks,
                             const Tensor& out, const Tensor& lse, const RingOptions& o) {
  Ring ring(peers, layout, o, q.size(1));
  const AttentionShape shape{q.size(0), q.size(1),     own.tokens(),
                             q.size(2), own.k.size(2), q.size(3)};
  const Tensor dots = torch::empty_like(lse);
  attention_row_dots<T>(shape, rows<const T>(d_out), rows<const T>(out), dots.data_ptr<T>());
  const Backward b{q, d_out, lse, dots, torch::zeros(q.sizes(), q.options())};
  Tensor home =
      torch::zeros({2, own.k.size(0), own.tokens(), own.k.size(2), own.k.size(3)}, own.k.options());
  std::unique_ptr<ContextPeers::Arrival> returning;
  const auto take_home = [&] {
    if (!returning) return;
    const auto bytes = returning->bytes();
    CRATON_CHECK(bytes.size() == home.nbytes(), "{} bytes of gradients", bytes.size());
    home.add_(torch::from_blob(const_cast<std::byte*>(bytes.data()), home.sizes(), home.options()));
    returning->release();
    returning.reset();
  };
  const auto give_back = [&](int distance, const Tensor& gradient) {
    // The way of keys in the other direction.
    const bool wanted = !ring.pairs(ring.at(-distance), ring.self()).empty();
    auto next = ring.peers().exchange(ring.at(distance), gradient, ring.at(-distance), wanted);
    take_home();
    returning = std::move(next);
  };
  ring.walk(own, [&](int distance, const KeyBlock* block) {
    if (distance == 0) return backward_block<T>(ring, 0, b, *block, home[0], home[1], o);
    Tensor gradient;
    if (block != nullptr) {
      gradient = ring.peers().allocate({2, q.size(0), block->tokens(), own.k.size(2), q.size(3)},
                                       q.scalar_type());
      gradient.zero_();
      backward_block<T>(ring, distance, b, *block, gradient[0], gradient[1], o);
    }
    give_back(distance, gradient);
  });
  take_home();
  ring.peers().settle();
  RingGradients gradients{b.dq, home[0], home[1], {}};
  if (sinks.defined()) {
    // Once, not per block: dz_h = - sum over own queries of exp(z_h - lse) * dot
    gradients.d_sinks =
        -(torch::exp(sinks.view({1, -1, 1}) - lse) * dots).sum(at::IntArrayRef({0, 2}));
  }
  return gradients;
}

}  // namespace

std::pair<Tensor, Tensor> ring_forward(ContextPeers& peers, const ContextLayout& layout,
                                       const Tensor& q, const Tensor& k, const Tensor& v,
                                       const Tensor& sinks, const Tensor& key_mask,
                                       const RingOptions& options) {
  torch::NoGradGuard no_grad;
  const KeyBlock own{k, v, key_mask};
  return q.scalar_type() == torch::kDouble
             ? forward_typed<double>(peers, layout, q, own, sinks, options)
             : forward_typed<float>(peers, layout, q, own, sinks, options);
}

RingGradients ring_backward(ContextPeers& peers, const ContextLayout& layout, const Tensor& d_out,
                            const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& sinks,
                            const Tensor& key_mask, const Tensor& out, const Tensor& lse,
                            const RingOptions& options) {
  torch::NoGradGuard no_grad;
  const KeyBlock own{k, v, key_mask};
  const Tensor gradient = d_out.stride(3) == 1 ? d_out : d_out.contiguous();
  return q.scalar_type() == torch::kDouble
             ? backward_typed<double>(peers, layout, gradient, q, own, sinks, out, lse, options)
             : backward_typed<float>(peers, layout, gradient, q, own, sinks, out, lse, options);
}

}  // namespace craton::tensor
