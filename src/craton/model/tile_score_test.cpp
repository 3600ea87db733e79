#include "craton/model/tile_score.h"

#include <gtest/gtest.h>

namespace craton::model {
namespace {

using torch::Tensor;

struct Outcome {
  Tensor loss, slopes;  ///< of tokens and weights, in one vector
};

/// Two tiles of 20 and 17 patches, scored in pieces of `piece_bytes`.
Outcome score_in_pieces(int64_t piece_bytes) {
  torch::manual_seed(3);
  const auto options = torch::TensorOptions(torch::kFloat64).requires_grad(true);
  const Tensor normed = torch::randn({1, 37, 8}, options);
  const HeadWeights head = {torch::randn({12, 8}, options), torch::randn({12}, options),
                            torch::randn({2, 8}, options), torch::randn({2}, options)};
  const Tensor patches = torch::randn({1, 37, 12}, torch::kFloat64);
  patches.select(1, 30).zero_();  // a dead one
  TileScore score;
  score.patch_weight = 1.0 / 36;
  score.amplitude_share = 0.05;
  score.tiles = 2;
  score.piece_bytes = piece_bytes;
  score.truth = [&](int64_t t) { return t == 0 ? patches.slice(1, 0, 20) : patches.slice(1, 20); };
  const Tensor loss = score_tiles(normed, head, score);
  loss.backward();
  return {loss.detach(),
          torch::cat({normed.grad().flatten(), head.weight.grad().flatten(), head.bias.grad(),
                      head.amplitude_weight.grad().flatten(), head.amplitude_bias.grad()})};
}

// A piece of one patch, some with a rest, exactly a tile, more than all.
TEST(TileScore, PiecesMakeNoDifference) {
  const Outcome whole = score_in_pieces(1 << 20);
  EXPECT_GT(whole.loss.item<double>(), 0);
  for (const int64_t patches : {0, 1, 3, 7, 20}) {
    const Outcome pieces = score_in_pieces(patches * 12 * 8);
    EXPECT_TRUE(torch::allclose(pieces.loss, whole.loss, 1e-12, 1e-12)) << patches;
    EXPECT_TRUE(torch::allclose(pieces.slopes, whole.slopes, 1e-12, 1e-12)) << patches;
  }
}

}  // namespace
}  // namespace craton::model
