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
      grid_(settings.grid()),
      encoder_shape_(block_shape(settings, settings.dim, settings.heads, settings.mlp_ratio)),
      decoder_shape_(block_shape(settings, settings.decoder_dim, settings.decoder_heads,
                                 settings.decoder_mlp_ratio)),
      masked_(masked_count(grid_.tokens(), settings.mask_ratio)) {
  const int64_t d = settings.dim, dd = settings.decoder_dim, samples = grid_.patch_samples();
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
  if (settings.positions == Positions::kRotary) {
    angles_ = rotary_angles(grid_, d / settings.heads, settings.rotary_base);
    decoder_angles_ = rotary_angles(grid_, dd / settings.decoder_heads, settings.rotary_base);
  } else {
    positions_ = sin_cos_positions(grid_, d);
    decoder_positions_ = sin_cos_positions(grid_, dd);
  }
}

double Sfm::forward_flops_per_sample() const {
  const auto visible = static_cast<double>(grid_.tokens() - masked_);
  const auto masked = static_cast<double>(masked_);
  const auto samples = static_cast<double>(grid_.patch_samples());
  const auto d = static_cast<double>(settings_.dim),
             dd = static_cast<double>(settings_.decoder_dim);
  return 2 * visible * d * (samples + dd) + 2 * masked * dd * samples +
         static_cast<double>(settings_.depth) *
             VitBlock::forward_flops(encoder_shape_, grid_.tokens() - masked_) +
         static_cast<double>(settings_.decoder_depth) *
             VitBlock::forward_flops(decoder_shape_, grid_.tokens());
}

torch::Tensor Sfm::checked_input(const torch::Tensor& windows) const {
  const auto expected = grid_.window_shape();
  const bool fits = windows.dim() == grid_.axes + 1 &&
                    std::equal(expected.begin(), expected.end(), windows.sizes().begin() + 1);
  if (!fits || windows.size(0) == 0) {
    fail(ErrorCode::kInvalidArgument,
         "sfm: expected windows [batch, {}], found [{}]; make model.window and data.window equal",
         fmt::join(expected, ", "), fmt::join(windows.sizes(), ", "));
  }
  return windows.to(embed_weight_.scalar_type());
}

Rotation Sfm::rotation(const torch::Tensor& angles, const torch::Tensor& ids) const {
  if (!angles.defined()) return {};
  const torch::Tensor turns = rows_of(angles, ids);
  const auto type = embed_weight_.scalar_type();
  return {turns.cos().to(type), turns.sin().to(type)};
}

torch::Tensor Sfm::encode(const torch::Tensor& rows, const torch::Tensor& ids) {
  Stream x{tensor::linear(rows, embed_weight_, embed_bias_), {}};
  if (positions_.defined()) x.delta = rows_of(positions_, ids).to(rows.scalar_type());
  const Rotation turn = rotation(angles_, ids);
  for (const auto& block : encoder_) x = block->forward(std::move(x), turn);
  return x.norm(encoder_norm_weight_, encoder_norm_bias_, settings_.norm_eps);
}

Sfm::Predicted Sfm::predict(const torch::Tensor& encoded, const torch::Tensor& order) {
  const int64_t batch = encoded.size(0), visible = encoded.size(1), tokens = order.size(1);
  const int64_t masked = tokens - visible, width = settings_.decoder_dim;
  Stream x{torch::cat({tensor::linear(encoded, decoder_embed_weight_),
                       mask_token_.expand({batch, masked, width})},
                      1),
           {}};
  if (decoder_positions_.defined()) {
    x.delta = rows_of(decoder_positions_, order).to(encoded.scalar_type());
  }
  const Rotation turn = rotation(decoder_angles_, order);
  for (const auto& block : decoder_) x = block->forward(std::move(x), turn);
  x = {x.sum.slice(1, visible), x.delta.slice(1, visible)};
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
  const torch::Tensor windows = checked_input(batch.input);
  const int64_t tokens = grid_.tokens();
  const torch::Tensor order = mask_orders(batch.seed, batch.sample_numbers, tokens, masked_);
  const torch::Tensor visible_ids = order.slice(1, 0, tokens - masked_).contiguous();
  const torch::Tensor masked_ids = order.slice(1, tokens - masked_).contiguous();
  const Predicted predicted =
      predict(encode(gather_patches(windows, grid_, visible_ids), visible_ids), order);
  const PatchTargets targets = patch_targets(gather_patches(windows, grid_, masked_ids));
  torch::Tensor loss = patch_loss(predicted.patches, targets.values, targets.weight);
  if (batch.training && predicted.amplitude.defined()) {
    loss = loss + settings_.amplitude_weight * amplitude_loss(predicted.amplitude, targets);
  }
  return loss;
}

// Patches order[:, visible:] of `windows` as predicted from order[:, :visible], in the input's
// units: [batch, masked, patch samples].
torch::Tensor Sfm::predict_rows(const torch::Tensor& windows, const torch::Tensor& order,
                                int64_t visible, Amplitude amplitude) {
  const torch::Tensor visible_ids = order.slice(1, 0, visible).contiguous();
  const Predicted predicted =
      predict(encode(gather_patches(windows, grid_, visible_ids), visible_ids), order);
  torch::Tensor mean, scale;
  if (amplitude == Amplitude::kPredicted && predicted.amplitude.defined()) {
    mean = predicted.amplitude.select(-1, 0);
    scale = predicted.amplitude.select(-1, 1).exp();
  } else {
    const torch::Tensor masked_ids = order.slice(1, visible).contiguous();
    const PatchTargets targets = patch_targets(gather_patches(windows, grid_, masked_ids));
    mean = targets.mean;
    scale = targets.scale;
  }
  return predicted.patches * scale.unsqueeze(-1) + mean.unsqueeze(-1);
}

Reconstruction Sfm::reconstruct(const Batch& batch, const torch::Tensor& mask,
                                Amplitude amplitude) {
  torch::NoGradGuard no_grad;
  const torch::Tensor windows = checked_input(batch.input);
  const int64_t tokens = grid_.tokens(), samples = windows.size(0);
  Reconstruction result{windows.clone().contiguous(),
                        torch::zeros({samples, tokens}, torch::kBool)};
  if (!mask.defined()) {
    const torch::Tensor order = mask_orders(batch.seed, batch.sample_numbers, tokens, masked_);
    const torch::Tensor hidden = order.slice(1, tokens - masked_);
    result.mask.scatter_(1, hidden, true);
    scatter_patches(predict_rows(windows, order, tokens - masked_, amplitude), grid_, hidden,
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
            ? torch::zeros({1, hidden.size(1), grid_.patch_samples()}, windows.options())
            : predict_rows(window, torch::cat({visible, hidden}, 1), visible.size(1), amplitude);
    scatter_patches(rows, grid_, hidden, out);
  }
  return result;
}

torch::Tensor Sfm::embed(const torch::Tensor& windows_in) {
  torch::NoGradGuard no_grad;
  const torch::Tensor windows = checked_input(windows_in);
  const torch::Tensor ids =
      torch::arange(grid_.tokens(), torch::kInt64).expand({windows.size(0), -1}).contiguous();
  return encode(gather_patches(windows, grid_, ids), ids);
}

}  // namespace craton::model
