#include "craton/model/tile_score.h"

#include <algorithm>

#include "craton/base/check.h"
#include "craton/model/patch_loss.h"
#include "craton/model/patches.h"
#include "craton/tensor/layers.h"

namespace craton::model {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

Tensor tile_loss(const Tensor& normed, const variable_list& weights, const TileScore& score,
                 const Tensor& truth) {
  const PatchTargets targets = patch_targets(truth);
  const Tensor weight = targets.weight.gt(0).to(normed.scalar_type()).mul_(score.patch_weight);
  Tensor loss = patch_loss(tensor::linear(normed, weights[0], weights[1]), targets.values, weight);
  if (score.amplitude_share > 0) {
    const Tensor amplitude = torch::stack({targets.mean, targets.scale.log()}, -1);
    loss = loss + score.amplitude_share *
                      patch_loss(tensor::linear(normed, weights[2], weights[3]), amplitude, weight);
  }
  return loss;
}

/// Loss, and its gradients by `normed` and `weights`, if they are wanted.
struct Scored {
  Tensor loss;
  variable_list slopes;
};

/// Adds the patches `truth`, which `normed` predicts from token `first` on.
void score_piece(const Tensor& normed, int64_t first, const variable_list& weights,
                 const TileScore& score, const Tensor& truth, Scored& out) {
  const bool wants_slopes = !out.slopes.empty();
  const int64_t count = truth.size(1);
  const torch::AutoGradMode mode(wants_slopes);
  variable_list leaves = {normed.slice(1, first, first + count).detach()};
  for (const Tensor& weight : weights) leaves.push_back(weight.detach());
  if (wants_slopes) {
    for (Tensor& leaf : leaves) leaf.requires_grad_();
  }
  const Tensor loss = tile_loss(leaves[0], {leaves.begin() + 1, leaves.end()}, score, truth);
  const torch::NoGradGuard no_grad;
  out.loss.add_(loss.detach());
  if (!wants_slopes) return;
  const variable_list slopes = torch::autograd::grad({loss}, leaves);
  out.slopes[0].slice(1, first, first + count).copy_(slopes[0]);
  for (size_t i = 1; i < slopes.size(); ++i) out.slopes[i].add_(slopes[i]);
}

Scored score_all(const Tensor& normed, const variable_list& weights, const TileScore& score,
                 bool wants_slopes) {
  Scored out{torch::zeros({}, normed.options()), {}};
  if (wants_slopes) {
    out.slopes = {torch::empty_like(normed)};
    for (const Tensor& weight : weights) out.slopes.push_back(torch::zeros_like(weight));
  }
  int64_t first = 0;
  for (int64_t t = 0; t < score.tiles; ++t) {
    const Tensor truth = score.truth(t);
    const int64_t step = std::max<int64_t>(
        1, score.piece_bytes / (truth.size(2) * static_cast<int64_t>(truth.element_size())));
    for (int64_t i = 0; i < truth.size(1); i += step) {
      const Tensor piece = truth.slice(1, i, i + step);
      score_piece(normed, first, weights, score, piece, out);
      first += piece.size(1);
    }
  }
  CRATON_CHECK(first == normed.size(1), "tiles have {} of {} patches", first, normed.size(1));
  return out;
}

struct ScoreTiles : torch::autograd::Function<ScoreTiles> {
  static Tensor forward(AutogradContext* context, const Tensor& normed, const Tensor& weight,
                        const Tensor& bias, const c10::optional<Tensor>& amplitude_weight,
                        const c10::optional<Tensor>& amplitude_bias, int64_t score) {
    variable_list weights = {weight, bias};
    if (amplitude_weight) weights.insert(weights.end(), {*amplitude_weight, *amplitude_bias});
    Scored scored = score_all(normed, weights, *reinterpret_cast<const TileScore*>(score), true);
    context->save_for_backward(scored.slopes);
    return scored.loss;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    variable_list out = context->get_saved_variables();
    for (Tensor& slope : out) slope = slope * gradients[0];
    out.resize(6);
    return out;
  }
};

}  // namespace

Tensor score_tiles(const Tensor& normed, const HeadWeights& head, const TileScore& score) {
  const bool amplitude = score.amplitude_share > 0;
  if (!torch::GradMode::is_enabled()) {
    variable_list weights = {head.weight, head.bias};
    if (amplitude) weights.insert(weights.end(), {head.amplitude_weight, head.amplitude_bias});
    return score_all(normed, weights, score, false).loss;
  }
  const auto optional = [&](const Tensor& x) {
    return amplitude ? c10::optional<Tensor>(x) : c10::nullopt;
  };
  return ScoreTiles::apply(normed, head.weight, head.bias, optional(head.amplitude_weight),
                           optional(head.amplitude_bias), reinterpret_cast<int64_t>(&score));
}

}  // namespace craton::model
