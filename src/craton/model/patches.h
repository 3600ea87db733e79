#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "craton/tensor/torch.h"

namespace craton::model {

/// A window cut into equal patches, the tokens of the model. Tokens count row by row, the last axis
/// fastest; so do the samples of a patch. A 2D window is a 3D one whose first extent is 1.
struct PatchGrid {
  std::array<int64_t, 3> window{1, 1, 1};
  std::array<int64_t, 3> patch{1, 1, 1};
  int axes = 3;  ///< 2 or 3

  /// `window` and `patch` have 2 or 3 extents each; every patch extent divides the window's.
  PatchGrid(const std::vector<int64_t>& window, const std::vector<int64_t>& patch);

  std::array<int64_t, 3> count() const;       ///< patches per axis
  int64_t tokens() const;                     ///< patches per window
  int64_t patch_samples() const;              ///< samples per patch
  std::vector<int64_t> window_shape() const;  ///< without the leading 1 of a 2D window
};

/// The patches `ids` (int64 [batch, k]) of windows [batch, window...] as rows [batch, k,
/// patch_samples]: one copy of what is needed.
torch::Tensor gather_patches(const torch::Tensor& windows, const PatchGrid& grid,
                             const torch::Tensor& ids);

/// Writes rows [batch, k, patch_samples] to the places `ids` of windows [batch, window...]
/// (contiguous), the inverse of gather_patches.
void scatter_patches(const torch::Tensor& rows, const PatchGrid& grid, const torch::Tensor& ids,
                     torch::Tensor windows);

/// What the model has to predict of some patches.
struct PatchTargets {
  torch::Tensor values;  ///< [batch, k, patch_samples]: (sample - mean) / sqrt(variance + 1e-6),
                         ///< unbiased variance
  torch::Tensor mean;    ///< [batch, k]
  torch::Tensor scale;   ///< [batch, k]: sqrt(variance + 1e-6)
  torch::Tensor weight;  ///< [batch, k]: 1 / (batch * live patches of the row), 0 for dead patches
};

/// Targets of patch rows [batch, k, patch_samples]. A patch whose samples are all 0 is dead: there
/// was no recording, so there is nothing to predict, and it has no part in the loss. The weights of
/// a row with live patches sum to 1/batch.
PatchTargets patch_targets(const torch::Tensor& rows);

/// bool [batch, tokens]: the patches that contain at least a piece of a dead trace. A dead trace is
/// 0 along the whole last axis.
torch::Tensor patches_with_dead_traces(const torch::Tensor& windows, const PatchGrid& grid);

}  // namespace craton::model
