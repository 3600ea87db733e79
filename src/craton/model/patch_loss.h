#pragma once

#include "craton/tensor/torch.h"

namespace craton::model {

/// sum over rows of weight * mean over samples of (prediction - target)^2, a scalar with graph.
/// prediction and target [batch, k, samples], weight [batch, k] (PatchTargets::weight: 0 leaves a
/// row out, whatever it holds). Differentiable in the prediction. One pass forward, one backward;
/// row sums in double, in a fixed order.
torch::Tensor patch_loss(const torch::Tensor& prediction, const torch::Tensor& target,
                         const torch::Tensor& weight);

}  // namespace craton::model
