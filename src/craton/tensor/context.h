#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "craton/tensor/torch.h"

namespace craton::tensor {

/// The workers that share one context (the tokens of one sample), seen from one of them. One
/// thread; all peers make the same calls in the same order.
class ContextPeers {
 public:
  virtual ~ContextPeers() = default;
  virtual int size() const = 0;
  virtual int index() const = 0;

  /// Memory whose pieces peers may read in place; contents are undefined.
  virtual torch::Tensor allocate(at::IntArrayRef sizes, at::ScalarType type) = 0;

  /// A piece on its way from another peer.
  class Arrival {
   public:
    virtual ~Arrival() = default;
    /// Waits for it; readable until `release`.
    virtual std::span<const std::byte> bytes() = 0;
    virtual void release() = 0;
  };
  /// `mine` (contiguous; undefined for nothing) goes to the peer with index `to`; the piece of peer
  /// `from` is on its way to this one, if `wanted` (else null). Does not wait for it. In one call
  /// each peer is the `to` of one and the `from` of one. `mine` stays unchanged until `settle`; a
  /// few exchanges later its memory is let go, when it has been read.
  virtual std::unique_ptr<Arrival> exchange(int to, const torch::Tensor& mine, int from,
                                            bool wanted) = 0;
  /// All that was sent has been read.
  virtual void settle() = 0;

  /// The peer so many in front of this one in the order of indices, around the end.
  int at(int distance) const { return ((index() + distance) % size() + size()) % size(); }
};

/// Some of the peers, who exchange among themselves; all others do the same meanwhile.
class PeersSubset : public ContextPeers {
 public:
  /// `indices` of peers, the own one among them.
  PeersSubset(ContextPeers& all, std::vector<int> indices);
  int size() const override { return static_cast<int>(indices_.size()); }
  int index() const override { return index_; }
  torch::Tensor allocate(at::IntArrayRef sizes, at::ScalarType type) override {
    return all_.allocate(sizes, type);
  }
  std::unique_ptr<Arrival> exchange(int to, const torch::Tensor& mine, int from,
                                    bool wanted) override {
    return all_.exchange(indices_[static_cast<size_t>(to)], mine,
                         indices_[static_cast<size_t>(from)], wanted);
  }
  void settle() override { all_.settle(); }

 private:
  ContextPeers& all_;
  const std::vector<int> indices_;
  int index_ = -1;
};

/// A run of tokens of the whole context.
struct TokenRun {
  int64_t first = 0, count = 0;
};

/// Which tokens each peer has, by index; a peer's tokens lie in memory run after run.
using ContextLayout = std::vector<std::vector<TokenRun>>;

/// One run per peer, as equal as they can be.
ContextLayout contiguous_layout(int64_t tokens, int peers);
/// Peer i has parts i and 2C-1-i of 2C: under a causal mask all have the same work.
ContextLayout zigzag_layout(int64_t tokens, int peers);

/// How peers share an attention.
enum class ContextMethod {
  kRing,     ///< keys and values go around (ring_attention.h)
  kUlysses,  ///< each peer has all tokens of some heads (head_exchange.h)
  kHybrid,   ///< both: as many groups of heads as peers and heads allow, a ring over the rest
};

/// While it lives, attention on this thread (and its backward) is over the tokens of all peers:
/// each gives its own queries, keys and values. Without `layout` attention must be without causal
/// mask and window: then the order of tokens is free, and each peer may have any number of them.
class ContextScope {
 public:
  explicit ContextScope(ContextPeers& peers, ContextLayout layout = {},
                        ContextMethod method = ContextMethod::kRing);
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;
  ~ContextScope();

  /// The innermost one of this thread, or null.
  static const ContextScope* current();
  ContextPeers& peers() const { return peers_; }
  const ContextLayout& layout() const { return layout_; }
  ContextMethod method() const { return method_; }

 private:
  ContextPeers& peers_;
  const ContextLayout layout_;
  const ContextMethod method_;
  const ContextScope* before_;
};

/// While it lives, attention on this thread is over this worker's own tokens, also inside a
/// ContextScope.
class OwnTokensScope {
 public:
  OwnTokensScope();
  OwnTokensScope(const OwnTokensScope&) = delete;
  OwnTokensScope& operator=(const OwnTokensScope&) = delete;
  ~OwnTokensScope();

 private:
  const ContextScope* before_;
};

/// Peers of the scope of this thread; 1 without a scope.
int context_size();
/// Sum over all peers, added in the order of indices; all call it. The value without a scope.
double context_sum(double value);

}  // namespace craton::tensor
