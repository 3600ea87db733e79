#include "craton/tensor/head_exchange.h"

#include <functional>
#include <numeric>

#include "craton/base/check.h"
#include "craton/base/error.h"

namespace craton::tensor {
namespace {

using torch::Tensor;

/// A run of heads.
struct Heads {
  int64_t first = 0, count = 0;
  Tensor of(const Tensor& x) const { return x.narrow(2, first, count); }
};

bool can_split(int64_t heads, int64_t kv_heads, int64_t peers) {
  return heads % peers == 0 && (kv_heads % peers == 0 || peers % kv_heads == 0);
}

/// One peer's place: a group of neighbours that share heads, and a ring of those who have the same
/// heads in all groups.
class Places {
 public:
  Places(const ContextScope& scope, int64_t heads, int64_t kv_heads, int per_group)
      : heads_(heads),
        kv_heads_(kv_heads),
        per_group_(per_group),
        group_(scope.peers(), indices(scope.peers().index() / per_group * per_group, 1, per_group)),
        ring_(scope.peers(), indices(scope.peers().index() % per_group, per_group,
                                     scope.peers().size() / per_group)) {
    for (size_t i = 0; i < scope.layout().size(); ++i) {
      if (i % static_cast<size_t>(per_group) == 0) layout_.emplace_back();
      const auto& runs = scope.layout()[i];
      layout_.back().insert(layout_.back().end(), runs.begin(), runs.end());
    }
  }

  ContextPeers& group() { return group_; }
  ContextPeers& ring() { return ring_; }
  /// Of the ring: which tokens each group has.
  const ContextLayout& layout() const { return layout_; }
  Heads queries(int peer) const {
    const int64_t count = heads_ / per_group_;
    return {peer * count, count};
  }
  Heads keys(int peer) const {
    const int64_t count = std::max<int64_t>(1, kv_heads_ / per_group_);
    return {peer * kv_heads_ / per_group_, count};
  }

 private:
  static std::vector<int> indices(int first, int step, int count) {
    std::vector<int> out;
    for (int i = 0; i < count; ++i) out.push_back(first + i * step);
    return out;
  }

  const int64_t heads_, kv_heads_;
  const int per_group_;
  PeersSubset group_, ring_;
  ContextLayout layout_;
};

using Parts = std::vector<Tensor>;

/// Tensors [batch, tokens, ...] one after the other in memory that peers can read.
Tensor pack(ContextPeers& peers, const Parts& parts) {
  int64_t bytes = 0;
  for (const Tensor& part : parts) bytes += static_cast<int64_t>(part.nbytes());
  const Tensor packed = peers.allocate({bytes}, torch::kByte);
  auto* data = packed.data_ptr<uint8_t>();
  for (const Tensor& part : parts) {
    torch::from_blob(data, part.sizes(), part.options()).copy_(part);
    data += part.nbytes();
  }
  return packed;
}

/// The inverse: parts shaped `like`, but with as many tokens as the bytes have. Views of them.
Parts unpack(std::span<const std::byte> bytes, const Parts& like) {
  int64_t per_token = 0;
  for (const Tensor& part : like) {
    int64_t width = part.element_size();
    for (int64_t d = 0; d < part.dim(); ++d) width *= d == 1 ? 1 : part.size(d);
    per_token += width;
  }
  const auto total = static_cast<int64_t>(bytes.size());
  const int64_t tokens = total / per_token;
  CRATON_CHECK(tokens * per_token == total, "{} bytes of {} per token", total, per_token);
  Parts parts;
  auto* data = const_cast<std::byte*>(bytes.data());
  for (const Tensor& part : like) {
    std::vector<int64_t> sizes = part.sizes().vec();
    sizes[1] = tokens;
    parts.push_back(torch::from_blob(data, sizes, part.options()));
    data += parts.back().nbytes();
  }
  return parts;
}

/// Gives each peer its parts and takes those of each, the own ones first; `like`: their shapes.
void all_to_all(ContextPeers& peers, const std::function<Parts(int to)>& give, const Parts& like,
                const std::function<void(int from, const Parts&)>& take) {
  using Arrival = std::unique_ptr<ContextPeers::Arrival>;
  const auto start = [&](int distance) {
    if (distance >= peers.size()) return Arrival();
    const int to = peers.at(-distance);
    return peers.exchange(to, pack(peers, give(to)), peers.at(distance), true);
  };
  Arrival coming = start(1);
  take(peers.index(), give(peers.index()));
  for (int distance = 1; distance < peers.size(); ++distance) {
    Arrival next = start(distance + 1);
    take(peers.at(distance), unpack(coming->bytes(), like));
    coming->release();
    coming = std::move(next);
  }
}

using Counts = std::vector<int64_t>;

/// Each part of all peers of the group, token after token by index; the heads are this peer's.
/// Their numbers of tokens are added to `counts`.
Parts to_heads(ContextPeers& group, const std::function<Parts(int to)>& give, Counts& counts) {
  const auto size = static_cast<size_t>(group.size());
  const Parts like = give(group.index());
  std::vector<Parts> pieces(like.size(), Parts(size));
  all_to_all(group, give, like, [&](int from, const Parts& parts) {
    for (size_t i = 0; i < parts.size(); ++i)
      pieces[i][static_cast<size_t>(from)] = parts[i].contiguous().clone();
  });
  for (const Tensor& piece : pieces[0]) counts.push_back(piece.size(1));
  Parts whole;
  for (const Parts& piece : pieces) whole.push_back(torch::cat(piece, 1));
  return whole;
}

/// Tokens of a peer of the group, where those of all lie one after the other.
Tensor tokens_of(const Tensor& x, const Counts& counts, int peer) {
  const int64_t first = std::accumulate(counts.begin(), counts.begin() + peer, int64_t{0});
  return x.narrow(1, first, counts[static_cast<size_t>(peer)]);
}

/// [batch, tokens of the peer, heads, head_dim], to be filled in.
Tensor own_tokens(const Tensor& x, int64_t tokens, int64_t heads) {
  return torch::zeros({x.size(0), tokens, heads, x.size(3)}, x.options());
}

}  // namespace

int peers_per_group(ContextMethod method, int peers, int64_t heads, int64_t kv_heads) {
  switch (method) {
    case ContextMethod::kRing:
      return 1;
    case ContextMethod::kUlysses:
      if (!can_split(heads, kv_heads, peers)) {
        fail(
            ErrorCode::kInvalidArgument,
            "an attention of {} heads ({} of keys) cannot be shared out among {} workers by heads; "
            "use a number of heads that {} divides, or parallel.context_method hybrid or ring",
            heads, kv_heads, peers, peers);
      }
      return peers;
    case ContextMethod::kHybrid:
      break;
  }
  int most = 1;
  for (int n = 2; n <= peers; ++n) {
    if (peers % n == 0 && can_split(heads, kv_heads, n)) most = n;
  }
  return most;
}

SharedAttention shared_forward(const ContextScope& scope, const Tensor& q, const Tensor& k,
                               const Tensor& v, const Tensor& sinks, const Tensor& key_mask,
                               const RingOptions& options) {
  const int per_group = peers_per_group(scope.method(), scope.peers().size(), q.size(2), k.size(2));
  if (per_group == 1) {
    const auto [out, lse] =
        ring_forward(scope.peers(), scope.layout(), q, k, v, sinks, key_mask, options);
    return {out, {q, k, v, sinks, key_mask, out, lse}, {}};
  }
  torch::NoGradGuard no_grad;
  Places places(scope, q.size(2), k.size(2), per_group);
  Counts queries, keys;  // a worker may have more of one than of the other
  const Tensor own_q = to_heads(
      places.group(), [&](int to) { return Parts{places.queries(to).of(q)}; }, queries)[0];
  const Parts own = to_heads(
      places.group(),
      [&](int to) {
        Parts parts = {places.keys(to).of(k), places.keys(to).of(v)};
        if (key_mask.defined()) parts.push_back(key_mask);
        return parts;
      },
      keys);
  const Heads mine = places.queries(places.group().index());
  const Tensor own_sinks =
      sinks.defined() ? sinks.narrow(0, mine.first, mine.count).contiguous() : sinks;
  const Tensor own_mask = key_mask.defined() ? own[2] : key_mask;
  const auto [out, lse] = ring_forward(places.ring(), places.layout(), own_q, own[0], own[1],
                                       own_sinks, own_mask, options);
  const Tensor computed = out;
  SharedAttention result{own_tokens(q, q.size(1), q.size(2)),
                         {own_q, own[0], own[1], own_sinks, own_mask, out, lse},
                         queries};
  result.counts.insert(result.counts.end(), keys.begin(), keys.end());
  all_to_all(
      places.group(), [&](int to) { return Parts{tokens_of(computed, queries, to)}; }, {computed},
      [&](int from, const Parts& parts) { places.queries(from).of(result.out).copy_(parts[0]); });
  places.group().settle();
  return result;
}

RingGradients shared_backward(const ContextScope& scope, const Tensor& d_out, int64_t heads,
                              int64_t kv_heads, const std::vector<Tensor>& saved,
                              const std::vector<int64_t>& counts, const RingOptions& options) {
  const Tensor &q = saved[0], &k = saved[1], &v = saved[2], &sinks = saved[3];
  if (counts.empty()) {
    return ring_backward(scope.peers(), scope.layout(), d_out, q, k, v, sinks, saved[4], saved[5],
                         saved[6], options);
  }
  torch::NoGradGuard no_grad;
  const auto per_group = static_cast<std::ptrdiff_t>(counts.size() / 2);
  const Counts queries(counts.begin(), counts.begin() + per_group),
      keys(counts.begin() + per_group, counts.end());
  Places places(scope, heads, kv_heads, static_cast<int>(per_group));
  Counts same;
  const Parts own = to_heads(
      places.group(), [&](int to) { return Parts{places.queries(to).of(d_out)}; }, same);
  CRATON_CHECK(same == queries);
  const RingGradients g = ring_backward(places.ring(), places.layout(), own[0], q, k, v, sinks,
                                        saved[4], saved[5], saved[6], options);
  const int64_t own_keys = keys[static_cast<size_t>(places.group().index())];
  RingGradients result{own_tokens(q, d_out.size(1), heads),
                       own_tokens(k, own_keys, kv_heads),
                       own_tokens(v, own_keys, kv_heads),
                       {}};
  all_to_all(
      places.group(), [&](int to) { return Parts{tokens_of(g.dq, queries, to)}; }, {g.dq},
      [&](int from, const Parts& parts) { places.queries(from).of(result.dq).copy_(parts[0]); });
  all_to_all(
      places.group(),
      [&](int to) {
        return Parts{tokens_of(g.dk, keys, to), tokens_of(g.dv, keys, to)};
      },
      {g.dk, g.dv},
      [&](int from, const Parts& parts) {
        // A key head may have been with several peers.
        places.keys(from).of(result.dk).add_(parts[0]);
        places.keys(from).of(result.dv).add_(parts[1]);
      });
  if (sinks.defined()) {
    const Heads mine = places.queries(places.group().index());
    result.d_sinks = torch::zeros({heads}, sinks.options());
    result.d_sinks.narrow(0, mine.first, mine.count).copy_(g.d_sinks);
  }
  places.group().settle();
  return result;
}

}  // namespace craton::tensor
