#include "craton/model/patches.h"

#include <gtest/gtest.h>

#include "craton/model/patch_loss.h"
#include "craton/model/positions.h"
#include "craton/tensor/layers.h"

namespace craton::model {
namespace {

torch::Tensor all_ids(const PatchGrid& grid, int64_t batch) {
  return torch::arange(grid.tokens(), torch::kInt64).expand({batch, -1}).contiguous();
}

TEST(Patches, GatherIsReshapeAndPermute) {
  const PatchGrid grid({4, 6, 10}, {2, 3, 5});
  ASSERT_EQ(grid.tokens(), 8);
  const torch::Tensor windows = torch::randn({3, 4, 6, 10});
  const torch::Tensor expected =
      windows.view({3, 2, 2, 2, 3, 2, 5}).permute({0, 1, 3, 5, 2, 4, 6}).reshape({3, 8, 30});
  EXPECT_TRUE(torch::equal(gather_patches(windows, grid, all_ids(grid, 3)), expected));

  const torch::Tensor ids = torch::tensor({5, 0, 7, 1, 1, 2}, torch::kInt64).view({3, 2});
  const torch::Tensor some = gather_patches(windows, grid, ids);
  for (int64_t b = 0; b < 3; ++b) {
    EXPECT_TRUE(torch::equal(some[b], expected[b].index_select(0, ids[b])));
  }
  // A window that is a view of a larger block.
  const torch::Tensor wide = torch::randn({3, 4, 6, 13}).slice(3, 2, 12);
  EXPECT_TRUE(
      torch::equal(gather_patches(wide, grid, ids), gather_patches(wide.contiguous(), grid, ids)));
}

TEST(Patches, TwoDimensions) {
  const PatchGrid grid({4, 9}, {2, 3});
  EXPECT_EQ(grid.tokens(), 6);
  EXPECT_EQ(grid.window_shape(), (std::vector<int64_t>{4, 9}));
  const torch::Tensor windows = torch::randn({2, 4, 9}, torch::kDouble);
  const torch::Tensor expected =
      windows.view({2, 2, 2, 3, 3}).permute({0, 1, 3, 2, 4}).reshape({2, 6, 6});
  EXPECT_TRUE(torch::equal(gather_patches(windows, grid, all_ids(grid, 2)), expected));
}

TEST(Patches, ScatterUndoesGather) {
  const PatchGrid grid({4, 4, 8}, {2, 2, 4});
  const torch::Tensor windows = torch::randn({2, 4, 4, 8});
  torch::Tensor back = torch::zeros_like(windows);
  const torch::Tensor ids = torch::stack({torch::randperm(grid.tokens()), torch::randperm(8)});
  scatter_patches(gather_patches(windows, grid, ids), grid, ids, back);
  EXPECT_TRUE(torch::equal(back, windows));
}

TEST(Patches, TargetsHaveMeanZeroAndUnbiasedDeviationOne) {
  const torch::Tensor rows = torch::randn({2, 5, 37}, torch::kDouble) * 3 + 7;
  const PatchTargets t = patch_targets(rows);
  EXPECT_TRUE(torch::allclose(t.mean, rows.mean(-1), 1e-13, 1e-13));
  EXPECT_TRUE(torch::allclose(t.scale, (rows.var(-1) + 1e-6).sqrt(), 1e-13, 1e-13));
  EXPECT_TRUE(torch::allclose(t.values * t.scale.unsqueeze(-1) + t.mean.unsqueeze(-1), rows));
  EXPECT_TRUE(torch::allclose(t.weight, torch::full({2, 5}, 0.1, torch::kDouble)));
}

TEST(Patches, DeadPatchesWeighNothing) {
  torch::Tensor rows = torch::randn({2, 4, 16});
  rows[0][1].zero_();
  rows[0][3].zero_();
  rows[1].zero_();
  const PatchTargets t = patch_targets(rows);
  const torch::Tensor expected =
      torch::tensor({0.25f, 0.f, 0.25f, 0.f, 0.f, 0.f, 0.f, 0.f}).view({2, 4});
  EXPECT_TRUE(torch::allclose(t.weight, expected));
  EXPECT_TRUE(torch::isfinite(t.values).all().item<bool>());
  rows[1][0].fill_(2);  // constant, yet recorded
  EXPECT_FLOAT_EQ(patch_targets(rows).weight[1][0].item<float>(), 0.5f);
}

TEST(Patches, LossOfPredictingZeroIsOne) {
  const torch::Tensor rows = torch::randn({3, 20, 512}) * 0.01 + 4;
  const PatchTargets t = patch_targets(rows);
  const float loss = patch_loss(torch::zeros_like(rows), t.values, t.weight).item<float>();
  // (n-1)/n of the unbiased variance, less what the epsilon takes of a variance of 1e-4.
  EXPECT_NEAR(loss, 511.0 / 512 / 1.01, 2e-3);
  const PatchTargets strong = patch_targets(torch::randn({3, 20, 512}));
  EXPECT_NEAR(patch_loss(torch::zeros_like(rows), strong.values, strong.weight).item<float>(),
              511.0 / 512, 1e-4);
}

TEST(Patches, LossEqualsItsFormula) {
  const torch::Tensor prediction = torch::randn({2, 3, 21}, torch::kDouble).requires_grad_();
  const torch::Tensor target = torch::randn({2, 3, 21}, torch::kDouble);
  torch::Tensor weight = torch::rand({2, 3}, torch::kDouble);
  weight[1][2] = 0;
  const torch::Tensor expected = ((prediction - target).square().mean(-1) * weight).sum();
  const torch::Tensor gradient = torch::autograd::grad({expected * 3}, {prediction})[0];
  const torch::Tensor loss = patch_loss(prediction, target, weight);
  EXPECT_NEAR(loss.item<double>(), expected.item<double>(), 1e-13);
  EXPECT_TRUE(torch::allclose(torch::autograd::grad({loss * 3}, {prediction})[0], gradient));
}

TEST(Patches, WhatADeadRowHoldsDoesNotMatter) {
  torch::Tensor prediction = torch::randn({1, 2, 8});
  torch::Tensor target = torch::randn({1, 2, 8});
  const torch::Tensor weight = torch::tensor({1.f, 0.f}).view({1, 2});
  const float clean = patch_loss(prediction, target, weight).item<float>();
  target[0][1].fill_(std::numeric_limits<float>::quiet_NaN());
  prediction.requires_grad_();
  const torch::Tensor loss = patch_loss(prediction, target, weight);
  EXPECT_EQ(loss.item<float>(), clean);
  EXPECT_TRUE(torch::isfinite(torch::autograd::grad({loss}, {prediction})[0]).all().item<bool>());
}

TEST(Patches, DeadTracesMarkTheirColumnOfPatches) {
  const PatchGrid grid({4, 4, 8}, {2, 2, 4});
  torch::Tensor windows = torch::randn({2, 4, 4, 8});
  windows[0][3][1].zero_();                 // trace (3, 1): patch column (1, 0)
  windows[1][0][0].slice(0, 0, 4).zero_();  // half of a trace: not dead
  const torch::Tensor dead = patches_with_dead_traces(windows, grid);
  EXPECT_TRUE(torch::equal(dead[0].nonzero().view(-1), torch::tensor({4, 5}, torch::kInt64)));
  EXPECT_EQ(dead[1].sum().item<int64_t>(), 0);
}

TEST(Positions, SinCosFollowsTheFormula) {
  const PatchGrid grid({4, 6, 10}, {2, 2, 2});  // 2 x 3 x 5 patches
  const torch::Tensor table = sin_cos_positions(grid, 12);
  ASSERT_EQ(table.sizes(), (std::vector<int64_t>{30, 12}));
  const double* row = table.data_ptr<double>() + (1 * 15 + 2 * 5 + 3) * 12;
  EXPECT_DOUBLE_EQ(row[0], std::sin(1.0));
  EXPECT_DOUBLE_EQ(row[1], std::sin(1 * 0.01));
  EXPECT_DOUBLE_EQ(row[2], std::sin(2.0));
  EXPECT_DOUBLE_EQ(row[4], std::sin(3.0));
  EXPECT_DOUBLE_EQ(row[6 + 5], std::cos(3 * 0.01));
}

TEST(Positions, UnevenFrequenciesStillTellAllTokensApart) {
  for (const int64_t dim : {8, 10, 16, 64}) {
    const torch::Tensor table = sin_cos_positions(PatchGrid({16, 16, 16}, {4, 4, 4}), dim);
    const torch::Tensor distance = torch::cdist(table, table) + torch::eye(64) * 10;
    EXPECT_GT(distance.min().item<double>(), 1e-4) << dim;
  }
}

TEST(Positions, RotationKeepsLengthsAndSeesOnlyDifferences) {
  const PatchGrid grid({8, 8}, {1, 1});
  const torch::Tensor angles = rotary_angles(grid, 16, 100);
  const torch::Tensor q = torch::randn({1, 1, 1, 16}, torch::kDouble).expand({1, 64, 1, 16});
  const torch::Tensor k = torch::randn({1, 1, 1, 16}, torch::kDouble).expand({1, 64, 1, 16});
  const torch::Tensor c = angles.cos().unsqueeze(0), s = angles.sin().unsqueeze(0);
  const torch::Tensor rq = tensor::rotate(q, c, s).view({64, 16}),
                      rk = tensor::rotate(k, c, s).view({64, 16});
  EXPECT_TRUE(torch::allclose(rq.norm(2, {1}), q.reshape({64, 16}).norm(2, {1})));
  const torch::Tensor scores = rq.mm(rk.t());
  // Token (2,3) with (4,7) is token (1,0) with (3,4).
  EXPECT_NEAR(scores[2 * 8 + 3][4 * 8 + 7].item<double>(), scores[8][3 * 8 + 4].item<double>(),
              1e-12);
  EXPECT_GT((scores[0][1] - scores[0][8]).abs().item<double>(), 1e-6);
}

}  // namespace
}  // namespace craton::model
