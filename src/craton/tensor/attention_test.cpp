#include "craton/tensor/attention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "craton/base/error.h"
#include "craton/tensor/attention_block.h"
#include "craton/tensor/processor.h"
#include "craton/tensor/threads.h"

namespace craton::tensor {
namespace {

using torch::Tensor;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// [batch, queries, keys] or [queries, keys] bool: what may be seen.
Tensor visible(int64_t queries, int64_t keys, const AttentionOptions& o) {
  const Tensor position = torch::arange(queries).unsqueeze(1) + (o.causal ? keys - queries : 0);
  const Tensor key = torch::arange(keys).unsqueeze(0);
  Tensor seen = torch::ones({queries, keys}, torch::kBool);
  if (o.causal) seen = seen & (key <= position);
  if (o.window > 0) seen = seen & (key > position - o.window);
  if (o.window > 0 && !o.causal) seen = seen & (key < position + o.window);
  if (o.key_mask.defined()) seen = seen.unsqueeze(0) & o.key_mask.unsqueeze(1);
  return seen.dim() == 2 ? seen.unsqueeze(0) : seen;
}

/// The definition, as a matrix of all logits. Rows without visible key give 0.
Tensor dense_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                       const AttentionOptions& o = {}) {
  const int64_t group = q.size(2) / k.size(2);
  const Tensor qh = q.transpose(1, 2), kh = k.repeat_interleave(group, 2).transpose(1, 2),
               vh = v.repeat_interleave(group, 2).transpose(1, 2);
  const double scale = o.scale.value_or(1 / std::sqrt(double(q.size(3))));
  Tensor s = torch::matmul(qh, kh.transpose(2, 3)) * scale;  // [batch, heads, queries, keys]
  const Tensor hidden = ~visible(q.size(1), k.size(1), o).unsqueeze(1);
  s = s.masked_fill(hidden, -kInfinity);
  const Tensor sink =
      o.sinks.defined()
          ? o.sinks.view({1, -1, 1, 1}).expand({s.size(0), -1, s.size(2), 1})
          : torch::full({s.size(0), s.size(1), s.size(2), 1}, -kInfinity, s.options());
  s = torch::cat({s, sink}, 3);
  const Tensor max = s.amax(3, true).detach().clamp_min(-1e30);
  const Tensor e = torch::exp(s - max);
  const Tensor p = e / e.sum(3, true).clamp_min(1e-300);
  return torch::matmul(p.narrow(3, 0, k.size(1)), vh).transpose(1, 2);
}

struct Case {
  const char* name;
  int64_t batch, queries, keys, heads, kv_heads, head_dim;
  bool causal = false;
  int64_t window = 0;
  bool sinks = false, key_mask = false;
  double logit_scale = 1;
};

void PrintTo(const Case& c, std::ostream* os) { *os << c.name; }

const Case kCases[] = {
    {"small", 2, 5, 7, 2, 2, 4},
    {"one", 1, 1, 1, 1, 1, 1},
    {"block", 1, 96, 96, 1, 1, 64},
    {"vit", 2, 200, 200, 3, 3, 64},
    {"odd_dim", 1, 101, 131, 2, 2, 37},
    {"wide_dim", 1, 50, 113, 1, 1, 128},
    {"grouped", 1, 130, 130, 6, 2, 32},
    {"causal", 1, 210, 210, 2, 1, 32, true},
    {"causal_more_keys", 1, 33, 210, 2, 2, 16, true},
    {"causal_more_queries", 1, 120, 50, 2, 2, 16, true},
    {"window", 1, 300, 300, 2, 1, 16, true, 70},
    {"window_1", 1, 100, 100, 1, 1, 16, true, 1},
    {"window_both_ways", 1, 300, 300, 1, 1, 16, false, 40},
    {"sinks", 2, 110, 110, 4, 2, 32, true, 0, true},
    {"key_mask", 3, 120, 210, 2, 2, 32, false, 0, false, true},
    {"everything", 2, 220, 220, 4, 2, 24, true, 64, true, true},
    {"logits_x8", 1, 100, 150, 2, 2, 64, false, 0, false, false, 8},
};

struct Inputs {
  Tensor q, k, v, d_out;
  AttentionOptions options;
};

Inputs make_inputs(const Case& c, torch::ScalarType type) {
  torch::manual_seed(7);
  const auto f64 = torch::dtype(torch::kDouble);
  Inputs in;
  in.q = (torch::randn({c.batch, c.queries, c.heads, c.head_dim}, f64) * c.logit_scale).to(type);
  in.k = torch::randn({c.batch, c.keys, c.kv_heads, c.head_dim}, f64).to(type);
  in.v = torch::randn({c.batch, c.keys, c.kv_heads, c.head_dim}, f64).to(type);
  in.d_out = torch::randn({c.batch, c.queries, c.heads, c.head_dim}, f64).to(type);
  in.options.causal = c.causal;
  in.options.window = c.window;
  if (c.sinks) in.options.sinks = torch::full({c.heads}, 5, f64).to(type);
  if (c.key_mask) {
    in.options.key_mask = torch::rand({c.batch, c.keys}) > 0.3;
    in.options.key_mask[0].slice(0, 0, 100).fill_(
        false);  // a whole block, and with causal also whole rows
    if (c.batch > 2) in.options.key_mask[2].fill_(false);
  }
  return in;
}

struct Results {
  Tensor out, dq, dk, dv, d_sinks;
};

template <typename F>
Results differentiate(F attend, const Inputs& in, torch::ScalarType type) {
  Tensor q = in.q.to(type).detach().requires_grad_(), k = in.k.to(type).detach().requires_grad_(),
         v = in.v.to(type).detach().requires_grad_();
  AttentionOptions o = in.options;
  if (o.sinks.defined()) o.sinks = o.sinks.to(type).detach().requires_grad_();
  Tensor out = attend(q, k, v, o);
  out.backward(in.d_out.to(type));
  return {out.detach(), q.grad(), k.grad(), v.grad(),
          o.sinks.defined() ? o.sinks.grad() : Tensor()};
}

double max_error(const Tensor& a, const Tensor& b) {
  return a.numel() == 0 ? 0
                        : (a.to(torch::kDouble) - b.to(torch::kDouble)).abs().max().item<double>();
}

double relative_error(const Tensor& a, const Tensor& b) {
  const Tensor bd = b.to(torch::kDouble);
  const double norm = bd.norm().item<double>();
  return (a.to(torch::kDouble) - bd).norm().item<double>() / (norm > 0 ? norm : 1);
}

class AttentionCases : public testing::TestWithParam<Case> {
 protected:
  void TearDown() override { use_portable_kernels(false); }
};

TEST_P(AttentionCases, DoubleEqualsTheDefinition) {
  const Inputs in = make_inputs(GetParam(), torch::kDouble);
  const Results ours = differentiate(attention, in, torch::kDouble);
  const Results dense = differentiate(dense_attention, in, torch::kDouble);
  EXPECT_LE(max_error(ours.out, dense.out), 1e-12);
  EXPECT_LE(max_error(ours.dq, dense.dq), 1e-11);
  EXPECT_LE(max_error(ours.dk, dense.dk), 1e-11);
  EXPECT_LE(max_error(ours.dv, dense.dv), 1e-11);
  if (GetParam().sinks) {
    EXPECT_LE(max_error(ours.d_sinks, dense.d_sinks), 1e-11);
  }
}

TEST_P(AttentionCases, FloatIsWithinRounding) {
  const Inputs in = make_inputs(GetParam(), torch::kFloat);
  const double loose = GetParam().logit_scale > 1 ? 50 : 1;
  for (const bool portable : {false, true}) {
    use_portable_kernels(portable);
    const Results ours = differentiate(attention, in, torch::kFloat);
    const Results dense = differentiate(dense_attention, in, torch::kDouble);
    const Tensor error =
        (ours.out.to(torch::kDouble) - dense.out).abs() - 1e-5 * loose * dense.out.abs();
    EXPECT_LE(error.max().item<double>(), 1e-6 * loose);
    EXPECT_LE(relative_error(ours.dq, dense.dq), 5e-6 * loose);
    EXPECT_LE(relative_error(ours.dk, dense.dk), 5e-6 * loose);
    EXPECT_LE(relative_error(ours.dv, dense.dv), 5e-6 * loose);
    if (GetParam().sinks) {
      EXPECT_LE(relative_error(ours.d_sinks, dense.d_sinks), 5e-6);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, AttentionCases, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(AttentionCases, GradientEqualsFiniteDifferences) {
  const Inputs in = make_inputs(GetParam(), torch::kDouble);
  const Results r = differentiate(attention, in, torch::kDouble);
  const auto loss = [&](const Tensor& q, const Tensor& k, const Tensor& v,
                        const AttentionOptions& o) {
    return (attention(q, k, v, o) * in.d_out).sum().item<double>();
  };
  const Tensor eq = torch::randn_like(in.q), ek = torch::randn_like(in.k),
               ev = torch::randn_like(in.v);
  AttentionOptions above = in.options, below = in.options;
  double expected = ((r.dq * eq).sum() + (r.dk * ek).sum() + (r.dv * ev).sum()).item<double>();
  const double step = 1e-6;
  if (GetParam().sinks) {
    const Tensor es = torch::randn_like(in.options.sinks);
    above.sinks = in.options.sinks + step * es;
    below.sinks = in.options.sinks - step * es;
    expected += (r.d_sinks * es).sum().item<double>();
  }
  const double numeric = (loss(in.q + step * eq, in.k + step * ek, in.v + step * ev, above) -
                          loss(in.q - step * eq, in.k - step * ek, in.v - step * ev, below)) /
                         (2 * step);
  EXPECT_NEAR(numeric, expected, 1e-6 * std::max(1.0, std::abs(expected)));
}

TEST_P(AttentionCases, BitsDoNotDependOnThreads) {
  const Inputs in = make_inputs(GetParam(), torch::kFloat);
  set_threads(1);
  const Results one = differentiate(attention, in, torch::kFloat);
  set_threads(3);
  const Results three = differentiate(attention, in, torch::kFloat);
  set_threads(1);
  EXPECT_TRUE(torch::equal(one.out, three.out));
  EXPECT_TRUE(torch::equal(one.dq, three.dq));
  EXPECT_TRUE(torch::equal(one.dk, three.dk));
  EXPECT_TRUE(torch::equal(one.dv, three.dv));
}

TEST_P(AttentionCases, PackedHasTheBitsOfSeparateTensors) {
  const Case& c = GetParam();
  if (c.queries != c.keys) GTEST_SKIP() << "packed means as many keys as queries";
  const Inputs in = make_inputs(c, torch::kFloat);
  const Results apart = differentiate(attention, in, torch::kFloat);
  const Tensor qkv = torch::cat({in.q, in.k, in.v}, 2).requires_grad_();
  const Tensor out = attention_packed(qkv, in.options, c.kv_heads);
  out.backward(in.d_out);
  EXPECT_TRUE(torch::equal(out, apart.out));
  EXPECT_TRUE(torch::equal(qkv.grad(), torch::cat({apart.dq, apart.dk, apart.dv}, 2)));
}

TEST(Attention, ARowDoesNotDependOnItsPlaceInTheBatch) {
  const Inputs in = make_inputs({"", 3, 150, 150, 2, 2, 32}, torch::kFloat);
  const Tensor whole = attention(in.q, in.k, in.v);
  for (int64_t b = 0; b < 3; ++b) {
    const auto row = [b](const Tensor& x) { return x.narrow(0, b, 1); };
    EXPECT_TRUE(torch::equal(row(whole), attention(row(in.q), row(in.k), row(in.v))));
  }
}

TEST(Attention, LogitsOfTenThousand) {
  Inputs in = make_inputs({"", 1, 130, 130, 1, 1, 16}, torch::kFloat);
  in.q = in.q.sign() * 100;
  in.k = in.k.sign() * 25;
  in.options.scale =
      1;  // logits are whole numbers up to +-40,000: exact in float, and either tied or far apart
  const Results ours = differentiate(attention, in, torch::kFloat);
  const Results dense = differentiate(dense_attention, in, torch::kDouble);
  EXPECT_LE(max_error(ours.out, dense.out), 0.02);
  for (const Tensor& x : {ours.out, ours.dq, ours.dk, ours.dv})
    EXPECT_TRUE(x.isfinite().all().item<bool>());
}

TEST(Attention, PaddingIsNotEvenRead) {
  Inputs in = make_inputs({"", 2, 100, 200, 2, 1, 32}, torch::kFloat);
  in.options.key_mask = torch::ones({2, 200}, torch::kBool);
  in.options.key_mask.slice(1, 120).fill_(false);
  in.options.key_mask[1].slice(0, 3, 7).fill_(false);
  const Tensor hidden = ~in.options.key_mask;
  const Results clean = differentiate(attention, in, torch::kFloat);
  in.k = in.k.clone();
  in.v = in.v.clone();
  in.k.index_put_({hidden}, std::nan(""));
  in.v.index_put_({hidden}, std::nan(""));
  const Results poisoned = differentiate(attention, in, torch::kFloat);
  EXPECT_TRUE(torch::equal(clean.out, poisoned.out));
  EXPECT_TRUE(torch::equal(clean.dq, poisoned.dq));
  EXPECT_TRUE(torch::equal(clean.dk, poisoned.dk));
  EXPECT_TRUE(torch::equal(clean.dv, poisoned.dv));
  EXPECT_EQ(poisoned.dk.index({hidden}).abs().sum().item<float>(), 0);
}

TEST(Attention, RowsWithoutKeysGiveZero) {
  Inputs in = make_inputs({"", 2, 100, 200, 2, 1, 32}, torch::kFloat);
  in.options.key_mask = torch::zeros({2, 200}, torch::kBool);
  const Results r = differentiate(attention, in, torch::kFloat);
  for (const Tensor& x : {r.out, r.dq, r.dk, r.dv}) EXPECT_EQ(x.abs().sum().item<float>(), 0);
}

TEST(Attention, NotANumberShows) {
  Inputs in = make_inputs({"", 1, 100, 100, 1, 1, 16}, torch::kFloat);
  in.k[0][5][0][2] = std::nan("");
  EXPECT_TRUE(attention(in.q, in.k, in.v).isnan().all().item<bool>());
}

TEST(Attention, EmptyTensors) {
  const auto empty = [](int64_t b, int64_t n) {
    return torch::ones({b, n, 2, 8}).requires_grad_();
  };
  EXPECT_EQ(attention(empty(0, 5), empty(0, 5), empty(0, 5)).size(0), 0);
  Tensor k = empty(1, 5), v = empty(1, 5);
  attention(empty(1, 0), k, v).sum().backward();
  EXPECT_EQ(k.grad().abs().sum().item<float>(), 0);
  const Tensor q = empty(1, 5);
  const Tensor out = attention(q, empty(1, 0), empty(1, 0));
  out.sum().backward();
  EXPECT_EQ(out.abs().sum().item<float>(), 0);
  EXPECT_EQ(q.grad().abs().sum().item<float>(), 0);
}

TEST(Attention, WrongInputsAreErrors) {
  const Tensor x = torch::ones({1, 4, 6, 8});
  EXPECT_THROW(attention(x[0], x[0], x[0]), Error);
  EXPECT_THROW(attention(x, x.narrow(2, 0, 4), x.narrow(2, 0, 4)), Error);
  EXPECT_THROW(attention(x, x, x.narrow(1, 0, 3)), Error);
  EXPECT_THROW(attention(x.to(torch::kLong), x.to(torch::kLong), x.to(torch::kLong)), Error);
  EXPECT_THROW(attention_packed(x, {}, 3), Error);
  AttentionOptions o;
  o.key_mask = torch::ones({1, 3}, torch::kBool);
  EXPECT_THROW(attention(x, x, x, o), Error);
  o = {};
  o.sinks = torch::ones({5});
  EXPECT_THROW(attention(x, x, x, o), Error);
}

}  // namespace
}  // namespace craton::tensor
