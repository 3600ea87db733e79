// Attention over the tokens of several workers (threads with endpoints of their own here) against
// the same attention in one.
#include <gtest/gtest.h>

#include <thread>

#include "craton/base/error.h"
#include "craton/parallel/context_peers.h"
#include "craton/tensor/attention.h"
#include "craton/tensor/head_exchange.h"

namespace craton::parallel {
namespace {

using torch::Tensor;

struct Case {
  std::string name;
  int64_t tokens = 61, heads = 4, kv_heads = 4;
  bool causal = false, zigzag = false, sinks = false, masked = false;
  int64_t window = 0;
  double logits = 1;    ///< factor on the queries
  bool uneven = false;  ///< no layout: each worker has any number of tokens
  int64_t queries = 0;  ///< if they are others than the keys' tokens
  int64_t query_tokens() const { return queries > 0 ? queries : tokens; }
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

struct Values {
  Tensor q, k, v, sinks, key_mask, d_out;
};

constexpr int64_t kBatch = 2, kDim = 12;
constexpr auto kSharedMemory = comm::TransportChoice::kSharedMemory;
constexpr auto kRing = tensor::ContextMethod::kRing;

Values make_values(const Case& c, at::ScalarType type) {
  torch::manual_seed(7);
  const auto make = [&](int64_t tokens, int64_t heads) {
    return torch::randn({kBatch, tokens, heads, kDim}, torch::kDouble).to(type);
  };
  Values x{make(c.query_tokens(), c.heads) * c.logits,
           make(c.tokens, c.kv_heads),
           make(c.tokens, c.kv_heads),
           {},
           {},
           make(c.query_tokens(), c.heads)};
  if (c.sinks) x.sinks = torch::full({c.heads}, 5, type) + torch::arange(c.heads).to(type);
  if (c.masked) {
    x.key_mask = torch::rand({kBatch, c.tokens}) > 0.4;
    x.key_mask[1].fill_(false);  // rows that see nothing at all
  }
  return x;
}

/// out, dq, dk, dv, and d_sinks if there are any.
std::vector<Tensor> attend(const Case& c, const Values& given) {
  std::vector<Tensor> leaves = {given.q, given.k, given.v};
  if (given.sinks.defined()) leaves.push_back(given.sinks);
  for (Tensor& leaf : leaves) leaf = leaf.detach().clone().requires_grad_();
  tensor::AttentionOptions options;
  options.causal = c.causal;
  options.window = c.window;
  options.key_mask = given.key_mask;
  if (given.sinks.defined()) options.sinks = leaves[3];
  const Tensor out = tensor::attention(leaves[0], leaves[1], leaves[2], options);
  out.backward(given.d_out);
  std::vector<Tensor> results = {out.detach()};
  for (const Tensor& leaf : leaves) results.push_back(leaf.grad());
  return results;
}

tensor::ContextLayout layout_of(const Case& c, int workers) {
  if (c.zigzag) return tensor::zigzag_layout(c.tokens, workers);
  if (!c.uneven) return tensor::contiguous_layout(c.tokens, workers);
  tensor::ContextLayout layout;  // the first has most, the last but one has none
  for (int i = 0; i < workers; ++i) {
    const int64_t first = i == 0 ? 0 : c.tokens - 5;
    const int64_t end = i + 2 >= workers && i > 0 ? c.tokens : c.tokens - 5;
    layout.push_back({{std::min(first, end), i + 2 == workers && i > 0 ? 0 : end - first}});
  }
  if (workers == 1) layout = {{{0, c.tokens}}};
  if (workers == 2) layout = {{{0, c.tokens - 5}}, {{c.tokens - 5, 5}}};
  return layout;
}

Tensor part(const Tensor& x, const std::vector<tensor::TokenRun>& runs) {
  if (!x.defined()) return x;
  std::vector<Tensor> pieces;
  for (const auto& run : runs) pieces.push_back(x.narrow(1, run.first, run.count));
  return torch::cat(pieces, 1).contiguous();
}

/// The same as `attend`, put together from all workers' parts.
std::vector<Tensor> attend_together(const Case& c, const Values& x, int workers,
                                    comm::TransportChoice transport = kSharedMemory,
                                    tensor::ContextMethod method = kRing) {
  const tensor::ContextLayout layout = layout_of(c, workers);
  const tensor::ContextLayout query_layout =
      c.queries > 0 ? tensor::contiguous_layout(c.queries, workers) : layout;
  std::vector<std::unique_ptr<comm::Endpoint>> endpoints;
  comm::Group group;
  group.generation = Generation(1);
  for (int r = 0; r < workers; ++r) {
    comm::EndpointOptions options;
    options.transport = transport;
    endpoints.push_back(std::make_unique<comm::Endpoint>(options));
    group.members.push_back(endpoints.back()->address());
  }
  std::vector<std::vector<Tensor>> results(static_cast<size_t>(workers));
  std::vector<std::thread> threads;
  for (int r = 0; r < workers; ++r) {
    threads.emplace_back([&, r] {
      const auto k = static_cast<size_t>(r);
      comm::Group own = group;
      own.self = Rank(r);
      const auto communicator = endpoints[k]->join(own);
      std::vector<Rank> ranks;
      for (int i = 0; i < workers; ++i) ranks.push_back(Rank(i));
      CommunicatorPeers peers(*communicator, *endpoints[k], ranks);
      const bool free_order = (c.uneven || c.queries > 0) && !c.causal && c.window == 0;
      const tensor::ContextScope scope(peers, free_order ? tensor::ContextLayout() : layout,
                                       method);
      Values mine = x;
      for (Tensor* t : {&mine.k, &mine.v, &mine.key_mask}) *t = part(*t, layout[k]);
      for (Tensor* t : {&mine.q, &mine.d_out}) *t = part(*t, query_layout[k]);
      results[k] = attend(c, mine);
    });
  }
  for (auto& thread : threads) thread.join();
  std::vector<Tensor> whole;
  for (const Tensor* t : {&x.q, &x.q, &x.k, &x.v}) whole.push_back(torch::zeros_like(*t));
  if (x.sinks.defined()) whole.push_back(torch::zeros_like(x.sinks));
  for (size_t k = 0; k < results.size(); ++k) {
    for (size_t i = 0; i < 4; ++i) {
      int64_t at = 0;
      for (const auto& run : i < 2 ? query_layout[k] : layout[k]) {
        whole[i].narrow(1, run.first, run.count).copy_(results[k][i].narrow(1, at, run.count));
        at += run.count;
      }
    }
    if (x.sinks.defined()) whole[4] += results[k][4];
  }
  return whole;
}

std::vector<Case> cases() {
  return {
      {.name = "plain", .tokens = 64},
      {.name = "not_divisible"},
      {.name = "uneven_and_none", .uneven = true},
      {.name = "grouped", .kv_heads = 2},
      {.name = "sinks", .sinks = true},
      {.name = "causal", .causal = true},
      {.name = "zigzag", .kv_heads = 1, .causal = true, .zigzag = true},
      {.name = "zigzag_sinks_window", .causal = true, .zigzag = true, .sinks = true, .window = 9},
      {.name = "window", .window = 7},
      {.name = "causal_window", .kv_heads = 2, .causal = true, .window = 5},
      {.name = "masked", .masked = true},
      {.name = "masked_uneven_sinks", .sinks = true, .masked = true, .uneven = true},
      {.name = "sharp", .logits = 8},
      {.name = "other_queries", .sinks = true, .masked = true, .queries = 83},
      {.name = "fewer_queries", .kv_heads = 2, .queries = 5},
      {.name = "fewer_tokens_than_workers", .tokens = 3, .kv_heads = 2}};
}

class RingAttention : public testing::TestWithParam<Case> {};

TEST_P(RingAttention, EqualsOneWorkerInDouble) {
  const Case& c = GetParam();
  const Values x = make_values(c, torch::kDouble);
  const auto want = attend(c, x);
  for (int workers : {1, 2, 3, 4, 8}) {
    const auto got = attend_together(c, x, workers);
    for (size_t i = 0; i < want.size(); ++i) {
      const double error = (got[i] - want[i]).abs().max().item<double>();
      EXPECT_LT(error, 1e-12 * c.logits) << workers << " workers, tensor " << i;
      EXPECT_TRUE(workers > 1 || error == 0) << "tensor " << i;
    }
  }
}

TEST_P(RingAttention, IsWithinTheGatesInFloat) {
  const Case& c = GetParam();
  const auto want = attend(c, make_values(c, torch::kDouble));
  const Values x = make_values(c, torch::kFloat);
  const double loose = c.logits > 1 ? 50 : 1;
  for (int workers : {2, 3, 8}) {
    const auto got = attend_together(c, x, workers);
    const Tensor out = got[0].to(torch::kDouble);
    EXPECT_TRUE(torch::allclose(out, want[0], 1e-5 * loose, 1e-6 * loose)) << workers;
    for (size_t i = 1; i < want.size(); ++i) {
      const double error = (got[i].to(torch::kDouble) - want[i]).norm().item<double>() /
                           std::max(want[i].norm().item<double>(), 1e-30);
      EXPECT_LE(error, 5e-6 * loose) << workers << " workers, gradient " << i;
    }
  }
}

// All heads of some tokens against some heads of all tokens, and both at once: 8 workers and 4
// heads are two groups of four.
TEST_P(RingAttention, EqualsOneWorkerWhenHeadsAreSharedOut) {
  using tensor::ContextMethod;
  const Case& c = GetParam();
  const Values x = make_values(c, torch::kDouble);
  const auto want = attend(c, x);
  for (const auto& [method, workers] :
       {std::pair(ContextMethod::kUlysses, 1), std::pair(ContextMethod::kUlysses, 2),
        std::pair(ContextMethod::kUlysses, 4), std::pair(ContextMethod::kHybrid, 3),
        std::pair(ContextMethod::kHybrid, 4), std::pair(ContextMethod::kHybrid, 8)}) {
    const auto got = attend_together(c, x, workers, kSharedMemory, method);
    for (size_t i = 0; i < want.size(); ++i) {
      const double error = (got[i] - want[i]).abs().max().item<double>();
      EXPECT_LT(error, 1e-12 * c.logits) << workers << " workers, tensor " << i;
    }
  }
}

TEST(PeersPerGroup, FollowHeadsAndMethod) {
  using tensor::ContextMethod, tensor::peers_per_group;
  EXPECT_EQ(peers_per_group(ContextMethod::kRing, 8, 16, 16), 1);
  EXPECT_EQ(peers_per_group(ContextMethod::kUlysses, 8, 16, 16), 8);
  EXPECT_EQ(peers_per_group(ContextMethod::kUlysses, 8, 16, 2), 8);
  EXPECT_EQ(peers_per_group(ContextMethod::kHybrid, 8, 12, 12), 4);
  EXPECT_EQ(peers_per_group(ContextMethod::kHybrid, 6, 4, 4), 2);
  EXPECT_EQ(peers_per_group(ContextMethod::kHybrid, 5, 4, 4), 1);
  try {
    peers_per_group(ContextMethod::kUlysses, 8, 12, 12);
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("12 heads (12 of keys) cannot be shared out among 8"),
              std::string::npos);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, RingAttention, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

TEST(RingAttentionBits, DoNotDependOnTheTransport) {
  const Case c{.name = "mixed", .kv_heads = 2, .causal = true, .zigzag = true, .sinks = true};
  const Values x = make_values(c, torch::kFloat);
  const auto memory = attend_together(c, x, 3);
  const auto tcp = attend_together(c, x, 3, comm::TransportChoice::kTcp);
  for (size_t i = 0; i < memory.size(); ++i) EXPECT_TRUE(torch::equal(memory[i], tcp[i])) << i;
}

// What a masked key holds never gets into a sum.
TEST(RingAttentionBits, DoNotDependOnWhatPaddingHolds) {
  const Case c{.name = "padded", .masked = true};
  Values x = make_values(c, torch::kFloat);
  const auto clean = attend_together(c, x, 3);
  const Tensor hidden = x.key_mask.logical_not().view({kBatch, c.tokens, 1, 1});
  x.k = x.k.masked_fill(hidden, std::numeric_limits<float>::quiet_NaN());
  x.v = x.v.masked_fill(hidden, std::numeric_limits<float>::quiet_NaN());
  const auto poisoned = attend_together(c, x, 3);
  for (size_t i = 0; i < clean.size(); ++i) EXPECT_TRUE(torch::equal(clean[i], poisoned[i])) << i;
}

}  // namespace
}  // namespace craton::parallel
