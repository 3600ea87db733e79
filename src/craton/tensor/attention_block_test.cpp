#include "craton/tensor/attention_block.h"

#include <gtest/gtest.h>

#include <cmath>

#include "craton/tensor/attention.h"

// Keys that arrive in blocks, as they do around a ring of workers, against all keys at once.
namespace craton::tensor {
namespace {

using torch::Tensor;

constexpr int64_t kBatch = 2, kTokens = 230, kHeads = 4, kKvHeads = 2, kDim = 24;
const std::vector<int64_t> kCuts = {0, 60, 61, 61, 180, kTokens};  // uneven, one empty

template <typename T>
HeadRows<T> rows(const Tensor& x) {
  return {x.data_ptr<std::remove_const_t<T>>(), x.stride(0), x.stride(1), x.stride(2)};
}

struct MaskKind {
  bool causal = false;
  int64_t window = 0;
  bool sinks = false, key_mask = false;
};

template <typename T>
class Blocks {
 public:
  explicit Blocks(const MaskKind& s) : setup(s) {
    torch::manual_seed(3);
    const auto type = torch::dtype(c10::CppTypeToScalarType<T>::value);
    q = torch::randn({kBatch, kTokens, kHeads, kDim}, type);
    k = torch::randn({kBatch, kTokens, kKvHeads, kDim}, type);
    v = torch::randn({kBatch, kTokens, kKvHeads, kDim}, type);
    d_out = torch::randn_like(q);
    options.causal = s.causal;
    options.window = s.window;
    if (s.sinks) options.sinks = torch::full({kHeads}, 5, type);
    if (s.key_mask) options.key_mask = torch::rand({kBatch, kTokens}) > 0.4;
  }

  AttentionShape shape(int64_t keys) const {
    return {kBatch, kTokens, keys, kHeads, kKvHeads, kDim};
  }

  AttentionMask mask(int64_t first) const {
    AttentionMask m{setup.causal, setup.window, -first};
    if (setup.key_mask) {
      m.key_mask = options.key_mask.data_ptr<bool>() + first;
      m.key_mask_stride = kTokens;
    }
    return m;
  }

  /// Both directions, block by block. Returns out, dq, dk, dv.
  std::vector<Tensor> block_by_block() {
    const double scale = 1 / std::sqrt(double(kDim));
    Tensor out = torch::empty_like(q), lse = torch::empty({kBatch, kHeads, kTokens}, q.options());
    Tensor max = torch::empty_like(lse), sum = torch::empty_like(lse),
           dots = torch::empty_like(lse);
    const AttentionState<T> state{rows<T>(out), max.data_ptr<T>(), sum.data_ptr<T>()};
    attention_begin<T>(shape(kTokens), state);
    for (size_t i = 0; i + 1 < kCuts.size(); ++i) {
      const Tensor kb = k.slice(1, kCuts[i], kCuts[i + 1]), vb = v.slice(1, kCuts[i], kCuts[i + 1]);
      attention_forward_block<T>(shape(kb.size(1)), mask(kCuts[i]), scale, rows<const T>(q),
                                 rows<const T>(kb), rows<const T>(vb), state);
    }
    const T* sinks = options.sinks.defined() ? options.sinks.data_ptr<T>() : nullptr;
    attention_finish<T>(shape(kTokens), state, sinks, lse.data_ptr<T>());
    attention_row_dots<T>(shape(kTokens), rows<const T>(d_out), rows<const T>(out),
                          dots.data_ptr<T>());
    Tensor dq = torch::zeros_like(q), dk = torch::zeros_like(k), dv = torch::zeros_like(v);
    for (size_t i = 0; i + 1 < kCuts.size(); ++i) {
      const auto cut = [&](const Tensor& x) { return x.slice(1, kCuts[i], kCuts[i + 1]); };
      attention_backward_block<T>(shape(kCuts[i + 1] - kCuts[i]), mask(kCuts[i]), scale,
                                  rows<const T>(q), rows<const T>(cut(k)), rows<const T>(cut(v)),
                                  rows<const T>(d_out), lse.data_ptr<T>(), dots.data_ptr<T>(),
                                  rows<T>(dq), rows<T>(cut(dk)), rows<T>(cut(dv)), true);
    }
    return {out, dq, dk, dv};
  }

  std::vector<Tensor> at_once() {
    const auto leaf = [](const Tensor& x) { return x.clone().requires_grad_(); };
    const Tensor ql = leaf(q), kl = leaf(k), vl = leaf(v);
    const Tensor out = attention(ql, kl, vl, options);
    out.backward(d_out);
    return {out.detach(), ql.grad(), kl.grad(), vl.grad()};
  }

  MaskKind setup;
  Tensor q, k, v, d_out;
  AttentionOptions options;
};

template <typename T>
void expect_equal(const MaskKind& setup, double tolerance) {
  Blocks<T> blocks(setup);
  const auto apart = blocks.block_by_block(), whole = blocks.at_once();
  for (size_t i = 0; i < whole.size(); ++i) {
    EXPECT_LE((apart[i] - whole[i]).abs().max().template item<double>(), tolerance) << i;
  }
}

TEST(AttentionBlock, BlocksEqualTheWhole) {
  for (const MaskKind& setup : {MaskKind{}, MaskKind{true}, MaskKind{true, 50}, MaskKind{false, 40},
                                MaskKind{true, 0, true, true}}) {
    expect_equal<double>(setup, 1e-12);
    expect_equal<float>(setup, 2e-6 * 10);
  }
}

TEST(AttentionBlock, MergeEqualsTheWholeAndGuardsEmptyBlocks) {
  Blocks<double> b({});
  const double infinity = std::numeric_limits<double>::infinity();
  const auto part = [&](int64_t first, int64_t end, Tensor& lse) {
    const Tensor k = b.k.slice(1, first, end), v = b.v.slice(1, first, end);
    Tensor out = torch::empty_like(b.q), max = torch::empty_like(lse), sum = torch::empty_like(lse);
    const AttentionState<double> state{rows<double>(out), max.data_ptr<double>(),
                                       sum.data_ptr<double>()};
    attention_begin<double>(b.shape(end - first), state);
    attention_forward_block<double>(b.shape(end - first), b.mask(first),
                                    1 / std::sqrt(double(kDim)), rows<const double>(b.q),
                                    rows<const double>(k), rows<const double>(v), state);
    attention_finish<double>(b.shape(end - first), state, nullptr, lse.data_ptr<double>());
    return out;
  };
  Tensor lse = torch::empty({kBatch, kHeads, kTokens}, torch::kDouble),
         other = torch::empty_like(lse);
  Tensor out = part(0, 0, lse);
  EXPECT_TRUE((lse == -infinity).all().item<bool>());
  for (size_t i = 0; i + 1 < kCuts.size(); ++i) {
    const Tensor block = part(kCuts[i], kCuts[i + 1], other);
    attention_merge<double>(b.shape(0), rows<double>(out), lse.data_ptr<double>(),
                            rows<const double>(block), other.data_ptr<double>());
  }
  EXPECT_LE((out - b.at_once()[0]).abs().max().item<double>(), 1e-12);
  EXPECT_TRUE(lse.isfinite().all().item<bool>());
  Tensor empty = part(0, 0, other), none = torch::full_like(lse, -infinity);
  attention_merge<double>(b.shape(0), rows<double>(empty), none.data_ptr<double>(),
                          rows<const double>(empty), other.data_ptr<double>());
  EXPECT_EQ(empty.abs().sum().item<double>(), 0);
  EXPECT_TRUE((none == -infinity).all().item<bool>());
}

/// Sequences longer than a packed segment of the kernel take another path through it.
TEST(AttentionBlock, SegmentsOfLongSequences) {
  torch::manual_seed(5);
  const int64_t tokens = 6300;
  const auto input = [&](int64_t heads) {
    return torch::randn({1, tokens, heads, 4}).requires_grad_();
  };
  const Tensor q = input(2), k = input(1), v = input(1), d_out = torch::randn({1, tokens, 2, 4});
  AttentionOptions o;
  o.causal = true;
  o.window = 300;
  const Tensor out = attention(q, k, v, o);
  out.backward(d_out);
  const int64_t from = 6000;  // queries [6000, 6300) see keys [5701, 6300) only
  const Tensor ql = q.detach().slice(1, from).clone().requires_grad_(),
               kl = k.detach().slice(1, 5701).clone().requires_grad_(),
               vl = v.detach().slice(1, 5701).clone().requires_grad_();
  const Tensor tail = attention(ql, kl, vl, o);
  tail.backward(d_out.slice(1, from));
  EXPECT_LE((out.detach().slice(1, from) - tail.detach()).abs().max().item<double>(), 1e-6);
  EXPECT_LE((q.grad().slice(1, from) - ql.grad()).abs().max().item<double>(), 2e-6);
  // keys from 6000 on are seen by those queries only
  EXPECT_LE((k.grad().slice(1, from) - kl.grad().slice(1, from - 5701)).abs().max().item<double>(),
            2e-5);
  EXPECT_LE((v.grad().slice(1, from) - vl.grad().slice(1, from - 5701)).abs().max().item<double>(),
            2e-5);
}

}  // namespace
}  // namespace craton::tensor
