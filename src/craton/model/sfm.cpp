#include "craton/model/sfm.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "craton/base/error.h"
#include "craton/model/mask.h"
#include "craton/model/patch_loss.h"
#include "craton/model/positions.h"
#include "craton/tensor/layers.h"

namespace craton::model {
namespace {

BlockShape block_shape(const SfmSettings& s, int64_t dim, int64_t heads, double mlp_ratio) {
  const auto hidden = std::max<int64_t>(1, std::llround(static_cast<double>(dim) * mlp_ratio));
  return {dim, heads, hidden, s.qk_norm, s.norm_eps};
}

// Rows `ids` [batch, k] of a table [tokens, width] as [batch, k, width].
torch::Tensor rows_of(const torch::Tensor& table, const torch::Tensor& ids) {
  return table.index_select(0, ids.reshape({-1})).view({ids.size(0), ids.size(1), table.size(1)});
}

}  // namespace

Sfm::Sfm(const SfmSettings& settings, uint64_t seed)
    : settings_(settings),
      encoder_shape_(block_shape(settings, settings.dim, settings.heads, settings.mlp_ratio)),
      decoder_shape_(block_shape(settings, settings.decoder_dim, settings.decoder_heads,
                                 settings.decoder_mlp_ratio)),
      usual_(&geometries_.emplace(settings.window, make_geometry(settings.window)).first->second) {
  const int64_t d = settings.dim, dd = settings.decoder_dim, samples = grid().patch_samples();
  const auto add = [this](const std::string& name, std::vector<int64_t> sizes) {
    return register_parameter(name, torch::zeros(sizes));
  };
  embed_weight_ = add("embed_weight", {d, samples});
  embed_bias_ = add("embed_bias", {d});
  for (int64_t i = 0; i < settings.depth; ++i) {
    encoder_.push_back(
        register_module(fmt::format("encoder{}", i), std::make_shared<VitBlock>(encoder_shape_)));
  }
  encoder_norm_weight_ = add("encoder_norm_weight", {d});
  encoder_norm_bias_ = add("encoder_norm_bias", {d});
  decoder_embed_weight_ = add("decoder_embed_weight", {dd, d});
  mask_token_ = add("mask_token", {dd});
  for (int64_t i = 0; i < settings.decoder_depth; ++i) {
    decoder_.push_back(
        register_module(fmt::format("decoder{}", i), std::make_shared<VitBlock>(decoder_shape_)));
  }
  decoder_norm_weight_ = add("decoder_norm_weight", {dd});
  decoder_norm_bias_ = add("decoder_norm_bias", {dd});
  head_weight_ = add("head_weight", {samples, dd});
  head_bias_ = add("head_bias", {samples});
  if (settings.amplitude_weight > 0) {
    amplitude_weight_ = add("amplitude_weight", {2, dd});
    amplitude_bias_ = add("amplitude_bias", {2});
  }
  init_transformer(*this, seed);
  {
    torch::NoGradGuard no_grad;
    init_normal(mask_token_, 0.02, seed, "mask_token");
  }
}

Sfm::Geometry Sfm::make_geometry(const std::vector<int64_t>& window) const {
  const SfmSettings& s = settings_;
  Geometry g{PatchGrid(window, s.patch), 0, {}, {}, {}, {}};
  g.masked = masked_count(g.grid.tokens(), s.mask_ratio);
  if (s.positions == Positions::kRotary) {
    g.angles = rotary_angles(g.grid, s.dim / s.heads, s.rotary_base);
    g.decoder_angles = rotary_angles(g.grid, s.decoder_dim / s.decoder_heads, s.rotary_base);
  } else {
    g.positions = sin_cos_positions(g.grid, s.dim);
    g.decoder_positions = sin_cos_positions(g.grid, s.decoder_dim);
  }
  return g;
}

double Sfm::forward_flops_per_sample() const {
  const int64_t tokens = grid().tokens(), hidden = usual_->masked;
  const auto visible = static_cast<double>(tokens - hidden);
  const auto masked = static_cast<double>(hidden);
  const auto samples = static_cast<double>(grid().patch_samples());
  const auto d = static_cast<double>(settings_.dim),
             dd = static_cast<double>(settings_.decoder_dim);
  return 2 * visible * d * (samples + dd) + 2 * masked * dd * samples +
         static_cast<double>(settings_.depth) *
             VitBlock::forward_flops(encoder_shape_, tokens - hidden, tokens - hidden) +
         static_cast<double>(settings_.decoder_depth - 1) *
             VitBlock::forward_flops(decoder_shape_, tokens, tokens) +
         VitBlock::forward_flops(decoder_shape_, tokens, hidden);
}

const Sfm::Geometry& Sfm::geometry_of(const torch::Tensor& windows) const {
  const std::vector<int64_t>& patch = settings_.patch;
  bool fits = windows.dim() == static_cast<int64_t>(patch.size()) + 1 && windows.numel() > 0;
  for (size_t a = 0; fits && a < patch.size(); ++a) {
    fits = windows.size(static_cast<int64_t>(a) + 1) % patch[a] == 0;
  }
  if (!fits) {
    fail(ErrorCode::kInvalidArgument,
         "sfm: expected windows [batch, ...] that patches of [{}] divide, found [{}]; change "
         "model.patch or data.window",
         fmt::join(patch, ", "), fmt::join(windows.sizes(), ", "));
  }
  const std::vector<int64_t> window = windows.sizes().slice(1).vec();
  const auto known = geometries_.find(window);
  if (known != geometries_.end()) return known->second;
  return geometries_.emplace(window, make_geometry(window)).first->second;
}

torch::Tensor Sfm::in_model_type(const torch::Tensor& windows) const {
  return windows.to(embed_weight_.scalar_type());
}

Rotation Sfm::rotation(const torch::Tensor& angles, const torch::Tensor& ids) const {
  if (!angles.defined()) return {};
  const torch::Tensor turns = rows_of(angles, ids);
  const auto type = embed_weight_.scalar_type();
  return {turns.cos().to(type), turns.sin().to(type)};
}

torch::Tensor Sfm::encode(const torch::Tensor& rows, const torch::Tensor& ids, const Geometry& g) {
  Stream x{tensor::linear(rows, embed_weight_, embed_bias_), {}};
  if (g.positions.defined()) x.delta = rows_of(g.positions, ids).to(rows.scalar_type());
  const Rotation turn = rotation(g.angles, ids);
  for (const auto& block : encoder_) x = block->forward(std::move(x), turn);
  return x.norm(encoder_norm_weight_, encoder_norm_bias_, settings_.norm_eps);
}

Sfm::Predicted Sfm::predict(const torch::Tensor& encoded, const torch::Tensor& order,
                            const Geometry& g) {
  const int64_t batch = encoded.size(0), visible = encoded.size(1), tokens = order.size(1);
  const int64_t masked = tokens - visible, width = settings_.decoder_dim;
  Stream x{torch::cat({tensor::linear(encoded, decoder_embed_weight_),
                       mask_token_.expand({batch, masked, width})},
                      1),
           {}};
  if (g.decoder_positions.defined()) {
    x.delta = rows_of(g.decoder_positions, order).to(encoded.scalar_type());
  }
  const Rotation turn = rotation(g.decoder_angles, order);
  for (const auto& block : decoder_) {
    x = block->forward(std::move(x), turn, block == decoder_.back() ? visible : 0);
  }
  const torch::Tensor normed = x.norm(decoder_norm_weight_, decoder_norm_bias_, settings_.norm_eps);
  Predicted predicted{tensor::linear(normed, head_weight_, head_bias_), {}};
  if (amplitude_weight_.defined()) {
    predicted.amplitude = tensor::linear(normed, amplitude_weight_, amplitude_bias_);
  }
  return predicted;
}

torch::Tensor Sfm::amplitude_loss(const torch::Tensor& predicted,
                                  const PatchTargets& targets) const {
  const torch::Tensor truth = torch::stack({targets.mean, targets.scale.log()}, -1);
  return patch_loss(predicted, truth, targets.weight);
}

torch::Tensor Sfm::loss(const Batch& batch) {
  const Geometry& g = geometry_of(batch.input);
  const torch::Tensor windows = in_model_type(batch.input);
  const int64_t tokens = g.grid.tokens(), visible = tokens - g.masked;
  const torch::Tensor order = mask_orders(batch.seed, batch.sample_numbers, tokens, g.masked);
  const torch::Tensor visible_ids = order.slice(1, 0, visible).contiguous();
  const torch::Tensor masked_ids = order.slice(1, visible).contiguous();
  const Predicted predicted =
      predict(encode(gather_patches(windows, g.grid, visible_ids), visible_ids, g), order, g);
  const PatchTargets targets = patch_targets(gather_patches(windows, g.grid, masked_ids));
  torch::Tensor loss = patch_loss(predicted.patches, targets.values, targets.weight);
  if (batch.training && predicted.amplitude.defined()) {
    loss = loss + settings_.amplitude_weight * amplitude_loss(predicted.amplitude, targets);
  }
  return loss;
}

// Patches order[:, visible:] of `windows` as predicted from order[:, :visible], in the input's
// units: [batch, masked, patch samples].
torch::Tensor Sfm::predict_rows(const torch::Tensor& windows, const torch::Tensor& order,
                                int64_t visible, Amplitude amplitude, const Geometry& g) {
  const torch::Tensor visible_ids = order.slice(1, 0, visible).contiguous();
  const Predicted predicted =
      predict(encode(gather_patches(windows, g.grid, visible_ids), visible_ids, g), order, g);
  torch::Tensor mean, scale;
  if (amplitude == Amplitude::kPredicted && predicted.amplitude.defined()) {
    mean = predicted.amplitude.select(-1, 0);
    scale = predicted.amplitude.select(-1, 1).exp();
  } else {
    const torch::Tensor masked_ids = order.slice(1, visible).contiguous();
    const PatchTargets targets = patch_targets(gather_patches(windows, g.grid, masked_ids));
    mean = targets.mean;
    scale = targets.scale;
  }
  return predicted.patches * scale.unsqueeze(-1) + mean.unsqueeze(-1);
}

Reconstruction Sfm::reconstruct(const Batch& batch, const torch::Tensor& mask,
                                Amplitude amplitude) {
  torch::NoGradGuard no_grad;
  const Geometry& g = geometry_of(batch.input);
  const torch::Tensor windows = in_model_type(batch.input);
  const int64_t tokens = g.grid.tokens(), samples = windows.size(0);
  Reconstruction result{windows.clone().contiguous(),
                        torch::zeros({samples, tokens}, torch::kBool)};
  if (!mask.defined()) {
    const torch::Tensor order = mask_orders(batch.seed, batch.sample_numbers, tokens, g.masked);
    const torch::Tensor hidden = order.slice(1, tokens - g.masked);
    result.mask.scatter_(1, hidden, true);
    scatter_patches(predict_rows(windows, order, tokens - g.masked, amplitude, g), g.grid, hidden,
                    result.prediction);
    return result;
  }
  if (mask.sizes() != result.mask.sizes()) {
    fail(ErrorCode::kInvalidArgument, "sfm: expected a mask [{}, {}], found [{}]", samples, tokens,
         fmt::join(mask.sizes(), ", "));
  }
  result.mask = mask.to(torch::kBool);
  for (int64_t b = 0; b < samples; ++b) {  // each row hides its own number of patches
    const torch::Tensor hidden = result.mask[b].nonzero().view({1, -1});
    const torch::Tensor visible = result.mask[b].logical_not().nonzero().view({1, -1});
    if (hidden.numel() == 0) continue;
    const torch::Tensor window = windows.slice(0, b, b + 1);
    torch::Tensor out = result.prediction.slice(0, b, b + 1);
    const torch::Tensor rows =
        visible.numel() == 0
            ? torch::zeros({1, hidden.size(1), g.grid.patch_samples()}, windows.options())
            : predict_rows(window, torch::cat({visible, hidden}, 1), visible.size(1), amplitude, g);
    scatter_patches(rows, g.grid, hidden, out);
  }
  return result;
}

torch::Tensor Sfm::embed(const torch::Tensor& windows_in) {
  torch::NoGradGuard no_grad;
  const Geometry& g = geometry_of(windows_in);
  const torch::Tensor windows = in_model_type(windows_in);
  const torch::Tensor ids =
      torch::arange(g.grid.tokens(), torch::kInt64).expand({windows.size(0), -1}).contiguous();
  return encode(gather_patches(windows, g.grid, ids), ids, g);
}

}  // namespace craton::model
