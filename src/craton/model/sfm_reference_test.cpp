// The whole model against the same mathematics in plain libtorch layers.
#include <gtest/gtest.h>

#include "craton/model/mask.h"
#include "craton/model/positions.h"
#include "craton/model/sfm.h"

namespace craton::model {
namespace {

using Parameters = torch::OrderedDict<std::string, torch::Tensor>;

torch::Tensor linear(const Parameters& p, const std::string& name, const torch::Tensor& x) {
  const torch::Tensor weight = p[name + "_weight"];
  torch::nn::Linear layer(
      torch::nn::LinearOptions(weight.size(1), weight.size(0)).bias(p.contains(name + "_bias")));
  layer->weight = weight;
  if (p.contains(name + "_bias")) layer->bias = p[name + "_bias"];
  return layer->forward(x);
}

torch::Tensor norm(const Parameters& p, const std::string& name, const torch::Tensor& x,
                   double eps) {
  torch::nn::LayerNorm layer(torch::nn::LayerNormOptions({x.size(-1)}).eps(eps));
  layer->weight = p[name + "_weight"];
  layer->bias = p.contains(name + "_bias") ? p[name + "_bias"] : torch::zeros_like(layer->weight);
  return layer->forward(x);
}

// Half-split rotation as models are usually written; angles [tokens, head_dim/2], x [batch, heads,
// tokens, head_dim].
torch::Tensor turn(const torch::Tensor& x, const torch::Tensor& angles) {
  const torch::Tensor both = torch::cat({angles, angles}, -1).to(x.scalar_type());
  const auto halves = x.chunk(2, -1);
  return x * both.cos() + torch::cat({-halves[1], halves[0]}, -1) * both.sin();
}

// `seen` [tokens, tokens]: which keys a query sees; undefined: all.
torch::Tensor block(const Parameters& p, const std::string& name, const torch::Tensor& x_in,
                    int64_t heads, const SfmSettings& s, const torch::Tensor& angles,
                    const torch::Tensor& seen = {}) {
  torch::Tensor x = x_in;
  const int64_t batch = x.size(0), tokens = x.size(1), dim = x.size(2);
  const torch::Tensor qkv = linear(p, name + "qkv", norm(p, name + "norm1", x, s.norm_eps))
                                .view({batch, tokens, 3, heads, dim / heads})
                                .permute({2, 0, 3, 1, 4});
  torch::Tensor q = qkv[0], k = qkv[1];
  if (s.qk_norm) {
    q = norm(p, name + "query_norm", q, s.norm_eps);
    k = norm(p, name + "key_norm", k, s.norm_eps);
  }
  if (angles.defined()) {
    q = turn(q, angles);
    k = turn(k, angles);
  }
  const double scale = 1 / std::sqrt(static_cast<double>(dim / heads));
  torch::Tensor logits = torch::matmul(q, k.transpose(-1, -2)) * scale;
  if (seen.defined()) logits = logits.masked_fill(seen.logical_not(), -1e30);
  const torch::Tensor weights = logits.softmax(-1);
  x = x + linear(p, name + "proj",
                 torch::matmul(weights, qkv[2]).transpose(1, 2).reshape({batch, tokens, dim}));
  const torch::Tensor h = linear(p, name + "fc1", norm(p, name + "norm2", x, s.norm_eps));
  return x + linear(p, name + "fc2", torch::nn::functional::gelu(h));
}

// Tokens in the same box of neighbours, by their coordinates.
torch::Tensor same_box(const PatchGrid& grid, const SfmSettings& s, bool displaced) {
  const auto n = grid.count();
  const torch::Tensor ids = torch::arange(grid.tokens(), torch::kInt64);
  torch::Tensor same = torch::ones({grid.tokens(), grid.tokens()}, torch::kBool);
  int64_t stride = 1;
  for (size_t back = 0; back < s.decoder_window.size(); ++back) {
    const size_t axis = 2 - back;
    const int64_t extent = s.decoder_window[s.decoder_window.size() - 1 - back];
    const bool first = back + 1 == s.decoder_window.size();
    const int64_t lead = displaced && !first && extent < n[axis] ? extent / 2 : 0;
    const torch::Tensor place = torch::div(ids, stride, "floor") % n[axis];
    const torch::Tensor box = torch::div(place + lead, extent, "floor");
    same = same.logical_and(box.unsqueeze(0) == box.unsqueeze(1));
    stride *= n[axis];
  }
  return same;
}

// All tokens keep their place here: masked ones are shut out of the encoder by a dense gather and
// put back by index_put.
torch::Tensor reference_loss(Sfm& model, const Batch& batch) {
  const SfmSettings& s = model.settings();
  const PatchGrid& grid = model.grid();
  const Parameters p = model.named_parameters();
  const auto type = p["embed_weight"].scalar_type();
  const int64_t tokens = grid.tokens(), masked = masked_count(tokens, s.mask_ratio);
  const auto n = grid.count();
  const torch::Tensor rows =
      batch.input.to(type)
          .reshape({-1, n[0], grid.patch[0], n[1], grid.patch[1], n[2], grid.patch[2]})
          .permute({0, 1, 3, 5, 2, 4, 6})
          .reshape({-1, tokens, grid.patch_samples()});
  const torch::Tensor target =
      (rows - rows.mean(-1, true)) / (rows.var(-1, true, true) + 1e-6).sqrt();
  torch::Tensor total = torch::zeros({}, rows.options());
  for (int64_t b = 0; b < rows.size(0); ++b) {
    const torch::Tensor order =
        mask_orders(batch.seed, {{batch.sample_numbers[b]}}, tokens, masked)[0];
    const torch::Tensor visible = order.slice(0, 0, tokens - masked);
    const torch::Tensor hidden = order.slice(0, tokens - masked);
    const bool rotary = s.positions == Positions::kRotary;
    torch::Tensor x = linear(p, "embed", rows[b]);
    if (!rotary) x = x + sin_cos_positions(grid, s.dim).to(type);
    x = x.index_select(0, visible).unsqueeze(0);
    torch::Tensor angles =
        rotary ? rotary_angles(grid, s.dim / s.heads, s.rotary_base).index_select(0, visible)
               : torch::Tensor();
    for (int64_t i = 0; i < s.depth; ++i) {
      x = block(p, "encoder" + std::to_string(i) + ".", x, s.heads, s, angles);
    }
    x = linear(p, "decoder_embed", norm(p, "encoder_norm", x, s.norm_eps));
    torch::Tensor full = p["mask_token"].expand({tokens, s.decoder_dim});
    full = full.index_put({visible}, x[0]).unsqueeze(0);
    if (!rotary) full = full + sin_cos_positions(grid, s.decoder_dim).to(type);
    angles = rotary ? rotary_angles(grid, s.decoder_dim / s.decoder_heads, s.rotary_base)
                    : torch::Tensor();
    torch::Tensor is_visible = torch::zeros({tokens}, torch::kBool).index_fill_(0, visible, true);
    for (int64_t i = 0; i < s.decoder_depth; ++i) {
      torch::Tensor seen;
      if (s.decoder_attention == DecoderAttention::kCross) seen = is_visible.expand({tokens, -1});
      if (s.decoder_attention == DecoderAttention::kWindow) seen = same_box(grid, s, i % 2 == 1);
      const torch::Tensor next =
          block(p, "decoder" + std::to_string(i) + ".", full, s.decoder_heads, s, angles, seen);
      const bool stay = s.decoder_attention == DecoderAttention::kCross;
      full = stay ? torch::where(is_visible.unsqueeze(1), full, next) : next;
    }
    full = norm(p, "decoder_norm", full, s.norm_eps)[0];
    torch::Tensor error = (linear(p, "head", full) - target[b]).square().mean(-1);
    if (s.amplitude_weight > 0 && batch.training) {
      const torch::Tensor truth =
          torch::stack({rows[b].mean(-1), (rows[b].var(-1) + 1e-6).sqrt().log()}, -1);
      error = error + s.amplitude_weight * (linear(p, "amplitude", full) - truth).square().mean(-1);
    }
    total = total + error.index_select(0, hidden).mean();
  }
  return total / rows.size(0);
}

SfmSettings small(bool two_dimensions, Positions positions, bool qk_norm) {
  SfmSettings s;
  s.window = two_dimensions ? std::vector<int64_t>{12, 20} : std::vector<int64_t>{4, 6, 8};
  s.patch = two_dimensions ? std::vector<int64_t>{3, 4} : std::vector<int64_t>{2, 2, 4};
  s.positions = positions;
  s.qk_norm = qk_norm;
  s.dim = 24;
  s.depth = 2;
  s.heads = 3;
  s.decoder_dim = 16;
  s.decoder_depth = 2;
  s.decoder_heads = 2;
  return s;
}

Batch random_batch(const SfmSettings& s, int64_t count, torch::Dtype type) {
  std::vector<int64_t> sizes = s.window;
  sizes.insert(sizes.begin(), count);
  Batch batch;
  torch::manual_seed(17);
  batch.input = torch::randn(sizes, type) * 2 + 0.3;
  for (int64_t i = 0; i < count; ++i) batch.sample_numbers.push_back(100 + 7 * i);
  batch.seed = 42;
  return batch;
}

// Makes biases and gains matter: they start as zeros and ones.
void shake(Sfm& model) {
  torch::NoGradGuard no_grad;
  torch::manual_seed(5);
  for (auto& p : model.parameters()) p.add_(torch::randn_like(p), 0.1);
}

using Variant = std::tuple<bool, Positions, bool, DecoderAttention>;
class SfmReference : public testing::TestWithParam<Variant> {};

TEST_P(SfmReference, LossAndGradientsEqualPlainLayers) {
  const auto [two_dimensions, positions, qk_norm, attention] = GetParam();
  for (const auto type : {torch::kDouble, torch::kFloat}) {
    SfmSettings s = small(two_dimensions, positions, qk_norm);
    s.decoder_attention = attention;
    if (attention ==
        DecoderAttention::kWindow) {  // 4 x 5 and 2 x 3 x 2 patches: some boxes are cut
      s.decoder_window =
          two_dimensions ? std::vector<int64_t>{2, 3} : std::vector<int64_t>{1, 2, 2};
    }
    Sfm model(s, 9);
    shake(model);
    model.to(type);
    const Batch batch = random_batch(s, 3, type);
    const torch::Tensor loss = model.loss(batch), expected = reference_loss(model, batch);
    const bool is_double = type == torch::kDouble;
    EXPECT_NEAR(loss.item<double>(), expected.item<double>(), is_double ? 1e-12 : 2e-5);
    const auto parameters = model.parameters();
    const auto got = torch::autograd::grad({loss}, parameters);
    const auto want = torch::autograd::grad({expected}, parameters);
    double difference = 0, size = 0;
    for (size_t i = 0; i < parameters.size(); ++i) {
      difference += (got[i] - want[i]).square().sum().item<double>();
      size += want[i].square().sum().item<double>();
      EXPECT_GT(want[i].abs().max().item<double>(), 0) << model.named_parameters()[i].key();
    }
    EXPECT_LE(std::sqrt(difference / size), is_double ? 1e-12 : 5e-6);
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, SfmReference,
                         testing::Combine(testing::Bool(),
                                          testing::Values(Positions::kSinCos, Positions::kRotary),
                                          testing::Bool(),
                                          testing::Values(DecoderAttention::kFull,
                                                          DecoderAttention::kCross,
                                                          DecoderAttention::kWindow)));

TEST(SfmReferenceValidation, LeavesTheAmplitudeOut) {
  const SfmSettings s = small(false, Positions::kSinCos, false);
  Sfm model(s, 9);
  model.to(torch::kDouble);
  Batch batch = random_batch(s, 2, torch::kDouble);
  const double training = model.loss(batch).item<double>();
  batch.training = false;
  EXPECT_NEAR(model.loss(batch).item<double>(), reference_loss(model, batch).item<double>(), 1e-12);
  EXPECT_GT(training, model.loss(batch).item<double>());
}

}  // namespace
}  // namespace craton::model
