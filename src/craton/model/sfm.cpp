#include "craton/model/sfm.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "craton/base/error.h"
#include "craton/model/mask.h"
#include "craton/model/patch_loss.h"
#include "craton/model/positions.h"
#include "craton/model/tile_score.h"
#include "craton/tensor/context.h"
#include "craton/tensor/layers.h"

namespace craton::model {
namespace {

BlockShape block_shape(const SfmSettings& s, int64_t dim, int64_t heads, double mlp_ratio) {
  const auto hidden = std::max<int64_t>(1, std::llround(static_cast<double>(dim) * mlp_ratio));
  return {dim, heads, hidden, s.qk_norm, s.norm_eps};
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
    g.angles = rotary_table(g.grid, s.dim / s.heads, s.rotary_base);
    g.decoder_angles = rotary_table(g.grid, s.decoder_dim / s.decoder_heads, s.rotary_base);
  } else {
    g.positions = sin_cos_table(g.grid, s.dim);
    g.decoder_positions = sin_cos_table(g.grid, s.decoder_dim);
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
  const auto decoder = [&](bool last) {
    switch (settings_.decoder_attention) {
      case DecoderAttention::kCross:
        return VitBlock::forward_flops(decoder_shape_, tokens - hidden, hidden, tokens - hidden);
      case DecoderAttention::kWindow: {
        int64_t box = 1;
        for (const int64_t extent : settings_.decoder_window) box *= extent;
        return VitBlock::forward_flops(decoder_shape_, tokens, tokens, std::min(box, tokens));
      }
      case DecoderAttention::kFull:
        break;
    }
    return VitBlock::forward_flops(decoder_shape_, tokens, last ? hidden : tokens, tokens);
  };
  return 2 * visible * d * (samples + dd) + 2 * masked * dd * samples +
         static_cast<double>(settings_.depth) *
             VitBlock::forward_flops(encoder_shape_, tokens - hidden, tokens - hidden,
                                     tokens - hidden) +
         static_cast<double>(settings_.decoder_depth - 1) * decoder(false) + decoder(true);
}

const Sfm::Geometry& Sfm::geometry_of(std::vector<int64_t> window, int64_t window_rows) const {
  const std::vector<int64_t>& patch = settings_.patch;
  bool fits = window.size() == patch.size();
  for (size_t a = 0; fits && a < patch.size(); ++a)
    fits = window[a] > 0 && window[a] % patch[a] == 0;
  if (!fits) {
    fail(ErrorCode::kInvalidArgument,
         "sfm: expected windows [batch, ...] that patches of [{}] divide, found windows of [{}]; "
         "change model.patch or data.window",
         fmt::join(patch, ", "), fmt::join(window, ", "));
  }
  if (window_rows > 0) window[0] = window_rows;
  const auto known = geometries_.find(window);
  if (known != geometries_.end()) return known->second;
  return geometries_.emplace(window, make_geometry(window)).first->second;
}

const Sfm::Geometry& Sfm::geometry_of(const torch::Tensor& windows) const {
  return geometry_of(windows.sizes().slice(1).vec(), 0);
}

torch::Tensor Sfm::in_model_type(const torch::Tensor& windows) const {
  return windows.to(embed_weight_.scalar_type());
}

Rotation Sfm::rotation(const TokenTable& angles, const torch::Tensor& ids) const {
  if (!angles.defined()) return {};
  const torch::Tensor turns = angles.rows(ids);
  const auto type = embed_weight_.scalar_type();
  return {turns.cos().to(type), turns.sin().to(type)};
}

torch::Tensor Sfm::encode(const torch::Tensor& rows, const torch::Tensor& ids, const Geometry& g) {
  Stream x{tensor::linear(rows, embed_weight_, embed_bias_), {}};
  if (g.positions.defined()) x.delta = g.positions.rows(ids).to(rows.scalar_type());
  const Rotation turn = rotation(g.angles, ids);
  for (const auto& block : encoder_) x = block->forward(std::move(x), turn);
  return x.norm(encoder_norm_weight_, encoder_norm_bias_, settings_.norm_eps);
}

int64_t Sfm::context_grain() const {
  const bool boxes = settings_.decoder_attention == DecoderAttention::kWindow;
  return settings_.patch[0] * (boxes ? settings_.decoder_window[0] : 1);
}

std::vector<Model::AttentionHeads> Sfm::shared_attention() const {
  std::vector<AttentionHeads> heads = {{settings_.heads, settings_.heads}};
  if (settings_.decoder_attention != DecoderAttention::kWindow)
    heads.push_back({settings_.decoder_heads, settings_.decoder_heads});
  return heads;
}

const TokenGroups& Sfm::groups_of(const PatchGrid& grid, bool displaced) {
  const auto key = std::pair(grid.count(), displaced);
  const auto known = groups_.find(key);
  if (known != groups_.end()) return known->second;
  return groups_.emplace(key, box_groups(grid, settings_.decoder_window, displaced)).first->second;
}

// Hidden tokens against visible ones: [batch, masked, decoder dim].
Stream Sfm::decode_across(const torch::Tensor& visible_rows, const torch::Tensor& ids,
                          const Geometry& g) {
  const int64_t batch = visible_rows.size(0), visible = visible_rows.size(1);
  const int64_t masked = ids.size(1) - visible;
  Stream x{mask_token_.expand({batch, masked, settings_.decoder_dim}).contiguous(), {}};
  torch::Tensor seen = visible_rows;
  if (g.decoder_positions.defined()) {
    const torch::Tensor positions = g.decoder_positions.rows(ids).to(seen.scalar_type());
    seen = seen + positions.slice(1, 0, visible);
    x.delta = positions.slice(1, visible);
  }
  const Rotation turn = rotation(g.decoder_angles, ids.slice(1, visible));
  const Rotation seen_turn = rotation(g.decoder_angles, ids.slice(1, 0, visible));
  for (const auto& block : decoder_) x = block->forward_across(std::move(x), turn, seen, seen_turn);
  return x;
}

// All tokens within their boxes: in the order of the grid and back.
Stream Sfm::decode_within(Stream x, const torch::Tensor& ids, const torch::Tensor& order,
                          const PatchGrid& grid, const Geometry& g) {
  const torch::Tensor back = inverse_of(order);
  const auto sorted = [&](const torch::Tensor& rows) {
    return rows.defined() ? permute_tokens(rows, back) : rows;
  };
  const Rotation turn = rotation(g.decoder_angles, ids.gather(1, back));
  x = {sorted(x.sum), sorted(x.delta)};
  bool displaced = false;
  for (const auto& block : decoder_) {
    x = block->forward_within(std::move(x), turn, groups_of(grid, displaced));
    displaced = !displaced;
  }
  return {permute_tokens(x.sum, order), permute_tokens(x.delta, order)};
}

torch::Tensor Sfm::decode(const torch::Tensor& encoded, const torch::Tensor& ids,
                          const torch::Tensor& order, const PatchGrid& grid, const Geometry& g) {
  const int64_t batch = encoded.size(0), visible = encoded.size(1);
  const int64_t masked = ids.size(1) - visible;
  const torch::Tensor rows = tensor::linear(encoded, decoder_embed_weight_);
  Stream x;
  if (settings_.decoder_attention == DecoderAttention::kCross) {
    x = decode_across(rows, ids, g);
  } else {
    x.sum = torch::cat({rows, mask_token_.expand({batch, masked, settings_.decoder_dim})}, 1);
    if (g.decoder_positions.defined())
      x.delta = g.decoder_positions.rows(ids).to(encoded.scalar_type());
    if (settings_.decoder_attention == DecoderAttention::kWindow) {
      x = decode_within(std::move(x), ids, order, grid, g).from(visible);
    } else {
      const Rotation turn = rotation(g.decoder_angles, ids);
      for (const auto& block : decoder_)
        x = block->forward(std::move(x), turn, block == decoder_.back() ? visible : 0);
    }
  }
  return x.norm(decoder_norm_weight_, decoder_norm_bias_, settings_.norm_eps);
}

Sfm::Predicted Sfm::predict(const torch::Tensor& encoded, const torch::Tensor& order,
                            const Geometry& g) {
  const torch::Tensor normed = decode(encoded, order, order, g.grid, g);
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

// A window, or a worker's part of one, as it comes in.
struct Sfm::Slab {
  Batch::Tiles tiles;
  PatchGrid grid;             // of the slab
  int64_t first = 0;          // token of the window at which it begins
  int64_t tile_tokens = 0;    // of a whole tile
  torch::Tensor visible_ids;  // [1, k] ascending, of the slab, counted in the window
  torch::Tensor masked_ids;

  int64_t count() const { return (tiles.shape[0] + tiles.rows - 1) / tiles.rows; }
  // `ids` that lie in a tile, counted in it.
  torch::Tensor within(const torch::Tensor& ids, int64_t tile) const {
    const auto* begin = ids.data_ptr<int64_t>();
    const int64_t low = first + tile * tile_tokens;
    const auto at = [&](int64_t token) {
      return std::lower_bound(begin, begin + ids.size(1), token) - begin;
    };
    return ids.slice(1, at(low), at(low + tile_tokens)) - low;
  }
  // Patches of a tile [1, k, samples], once for each of `ids`.
  std::vector<torch::Tensor> read(int64_t tile, const std::vector<torch::Tensor>& ids,
                                  at::ScalarType type) const {
    const int64_t row = tile * tiles.rows, rows = std::min(tiles.rows, tiles.shape[0] - row);
    std::vector<int64_t> shape = tiles.shape;
    shape[0] = rows;
    const std::vector<int64_t> patch(grid.patch.begin() + (3 - grid.axes), grid.patch.end());
    const PatchGrid cut(shape, patch);
    const torch::Tensor samples = tiles.read(row, rows).to(type);
    std::vector<torch::Tensor> out;
    for (const torch::Tensor& which : ids)
      out.push_back(gather_patches(samples, cut, within(which, tile)));
    return out;
  }
};

// Ids [1, k] that lie in [first, first + count), in their order.
static torch::Tensor ids_within(const torch::Tensor& ids, int64_t first, int64_t count) {
  return ids.masked_select(ids.ge(first).logical_and(ids.lt(first + count)))
      .unsqueeze(0)
      .contiguous();
}

Sfm::Slab Sfm::slab_of(const Batch& batch, const Geometry& g) const {
  Batch::Tiles tiles;
  if (batch.tiles) {
    tiles = *batch.tiles;
  } else {
    tiles.shape = batch.input.sizes().slice(1).vec();
    tiles.rows = tiles.shape[0];
    tiles.read = [input = batch.input](int64_t, int64_t) { return input; };
  }
  if (tiles.rows < 1 || tiles.rows % settings_.patch[0] != 0) {
    fail(ErrorCode::kInvalidArgument,
         "sfm: windows come {} rows at a time, which patches of {} rows do not divide; change "
         "data.tile_rows or model.patch",
         tiles.rows, settings_.patch[0]);
  }
  const PatchGrid grid(tiles.shape, settings_.patch);
  const int64_t row_tokens = grid.tokens() / (tiles.shape[0] / settings_.patch[0]);
  const int64_t first = batch.first_row / settings_.patch[0] * row_tokens;
  // The window's mask, whoever has which part of it.
  const int64_t visible = g.grid.tokens() - g.masked;
  const torch::Tensor order =
      mask_orders(batch.seed, batch.sample_numbers, g.grid.tokens(), g.masked);
  return {tiles,
          grid,
          first,
          tiles.rows / settings_.patch[0] * row_tokens,
          ids_within(order.slice(1, 0, visible), first, grid.tokens()),
          ids_within(order.slice(1, visible), first, grid.tokens())};
}

// A mean over the live patches of all parts, times the number of parts.
torch::Tensor Sfm::loss_of_part(const Batch& batch) {
  const std::vector<int64_t> shape =
      batch.tiles ? batch.tiles->shape : batch.input.sizes().slice(1).vec();
  const Geometry& g = geometry_of(shape, batch.window_rows);
  const Slab slab = slab_of(batch, g);
  const auto type = embed_weight_.scalar_type();
  // Written in place: the parts of a list and their concatenation would be the rows twice.
  torch::Tensor visible_rows = torch::empty({1, slab.visible_ids.size(1), g.grid.patch_samples()},
                                            torch::TensorOptions(type));
  torch::Tensor truth;  // of a window that is one tile
  double live = 0;
  int64_t visible = 0;
  for (int64_t t = 0; t < slab.count(); ++t) {
    auto rows = slab.read(t, {slab.visible_ids, slab.masked_ids}, type);
    visible_rows.slice(1, visible, visible + rows[0].size(1)).copy_(rows[0]);
    visible += rows[0].size(1);
    live += rows[1].ne(0).any(-1).sum().item<double>();
    if (slab.count() == 1) truth = rows[1];
  }
  const double all = tensor::context_sum(live);
  const torch::Tensor ids = torch::cat({slab.visible_ids, slab.masked_ids}, 1);
  const torch::Tensor normed =
      decode(encode(visible_rows, slab.visible_ids, g), ids, ids - slab.first, slab.grid, g);
  TileScore score;
  score.patch_weight = all > 0 ? tensor::context_size() / all : 0;
  if (batch.training && amplitude_weight_.defined())
    score.amplitude_share = settings_.amplitude_weight;
  score.tiles = slab.count();
  score.truth = [&](int64_t t) {
    return truth.defined() ? truth : slab.read(t, {slab.masked_ids}, type)[0];
  };
  return score_tiles(normed, {head_weight_, head_bias_, amplitude_weight_, amplitude_bias_}, score);
}

torch::Tensor Sfm::loss(const Batch& batch) {
  if (batch.window_rows > 0 || batch.tiles) return loss_of_part(batch);
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
