#pragma once

#include <cstdint>
#include <functional>

#include "craton/tensor/torch.h"

namespace craton::model {

/// What turns decoded tokens into predictions; the last two may be undefined.
struct HeadWeights {
  torch::Tensor weight, bias;                      ///< [samples, dim], [samples]
  torch::Tensor amplitude_weight, amplitude_bias;  ///< [2, dim], [2]
};

/// How predictions are scored.
struct TileScore {
  double patch_weight = 0;     ///< in the loss, of each live patch
  double amplitude_share = 0;  ///< weight of mean and log deviation; 0: not scored
  int64_t tiles = 0;
  /// Predictions at a time; with their errors and gradients a few times as much is in memory.
  int64_t piece_bytes = 16 << 20;
  /// The true patches [1, k, samples] of a tile. Tiles follow each other, together all tokens.
  std::function<torch::Tensor(int64_t tile)> truth;
};

/// Sum over the patches of `normed` [1, masked, dim] of patch_weight * mean squared error of their
/// prediction, dead ones left out, as a scalar with graph. The truth is in memory for one tile at a
/// time, predictions and their gradients for a few patches of it: forward computes the gradients at
/// once, backward scales them.
torch::Tensor score_tiles(const torch::Tensor& normed, const HeadWeights& head,
                          const TileScore& score);

}  // namespace craton::model
