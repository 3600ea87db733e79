#pragma once

#include <cstdint>
#include <vector>

#include "craton/model/patches.h"

namespace craton::model {

/// Tokens in groups of neighbours. Groups have one size, so smaller ones have places without a
/// token.
struct TokenGroups {
  int64_t groups = 0, size = 0;
  torch::Tensor token;  ///< int64 [groups * size]: the token of a place; 0 where there is none
  torch::Tensor used;   ///< bool [groups, size]: there is one; undefined: everywhere
  torch::Tensor place;  ///< int64 [tokens]: the place of a token
};

/// The tokens of a grid in boxes of `extents` patches (as many axes as the grid has); those at the
/// end of an axis may be smaller. `displaced`: by half a box along all axes but the first.
TokenGroups box_groups(const PatchGrid& grid, const std::vector<int64_t>& extents, bool displaced);

/// Rows of x [batch, tokens, ...] by place: [batch * groups, size, ...]; zero gradient from and to
/// places without a token. Differentiable.
torch::Tensor to_groups(const torch::Tensor& x, const TokenGroups& groups);
/// The inverse: [batch, tokens, ...].
torch::Tensor from_groups(const torch::Tensor& x, const TokenGroups& groups);

/// y[b, i] = x[b, order[b, i]] for order int64 [batch, tokens], a permutation in each row.
/// Differentiable.
torch::Tensor permute_tokens(const torch::Tensor& x, const torch::Tensor& order);
/// The inverse permutations.
torch::Tensor inverse_of(const torch::Tensor& order);

}  // namespace craton::model
