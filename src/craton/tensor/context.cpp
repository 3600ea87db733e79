#include "craton/tensor/context.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "craton/base/check.h"

namespace craton::tensor {
namespace {

thread_local const ContextScope* g_scope = nullptr;

/// Part `i` of `parts` of 0..tokens-1.
TokenRun part(int64_t tokens, int64_t parts, int64_t i) {
  const int64_t first = tokens * i / parts;
  return {first, tokens * (i + 1) / parts - first};
}

}  // namespace

ContextLayout contiguous_layout(int64_t tokens, int peers) {
  ContextLayout layout;
  for (int i = 0; i < peers; ++i) layout.push_back({part(tokens, peers, i)});
  return layout;
}

ContextLayout zigzag_layout(int64_t tokens, int peers) {
  ContextLayout layout;
  for (int i = 0; i < peers; ++i) {
    const TokenRun low = part(tokens, 2 * peers, i);
    const TokenRun high = part(tokens, 2 * peers, 2 * peers - 1 - i);
    layout.push_back({low, high});
    if (low.first + low.count == high.first)  // the last peer's are neighbours
      layout.back() = {{low.first, low.count + high.count}};
  }
  return layout;
}

PeersSubset::PeersSubset(ContextPeers& all, std::vector<int> indices)
    : all_(all), indices_(std::move(indices)) {
  const auto own = std::find(indices_.begin(), indices_.end(), all.index());
  CRATON_CHECK(own != indices_.end(), "peer {} is not in its own subset", all.index());
  index_ = static_cast<int>(own - indices_.begin());
}

ContextScope::ContextScope(ContextPeers& peers, ContextLayout layout, ContextMethod method)
    : peers_(peers),
      layout_(std::move(layout)),
      method_(method),
      before_(std::exchange(g_scope, this)) {}

ContextScope::~ContextScope() { g_scope = before_; }

OwnTokensScope::OwnTokensScope() : before_(std::exchange(g_scope, nullptr)) {}

OwnTokensScope::~OwnTokensScope() { g_scope = before_; }

const ContextScope* ContextScope::current() { return g_scope; }

int context_size() { return g_scope == nullptr ? 1 : g_scope->peers().size(); }

double context_sum(double value) {
  if (context_size() == 1) return value;
  ContextPeers& peers = g_scope->peers();
  std::vector<double> all(static_cast<size_t>(peers.size()), value);
  const torch::Tensor mine = peers.allocate({1}, torch::kDouble);
  *mine.data_ptr<double>() = value;
  for (int distance = 1; distance < peers.size(); ++distance) {
    const int from = peers.at(distance);
    const auto arrival = peers.exchange(peers.at(-distance), mine, from, true);
    std::memcpy(&all[static_cast<size_t>(from)], arrival->bytes().data(), sizeof(double));
    arrival->release();
  }
  peers.settle();
  double sum = 0;
  for (double x : all) sum += x;
  return sum;
}

}  // namespace craton::tensor
