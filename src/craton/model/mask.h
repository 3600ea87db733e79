#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "craton/tensor/torch.h"

namespace craton::model {

/// How many of `tokens` a mask ratio hides: round(ratio * tokens), at least 1 and at most tokens
/// - 1.
int64_t masked_count(int64_t tokens, double ratio);

/// The order in which an autoencoder sees the tokens of one window: the visible ones first, then
/// the masked ones, both ascending. A token is masked when its word is among the `masked` smallest;
/// equal words rank by token number.
std::vector<int64_t> order_by_words(std::span<const uint32_t> words, int64_t masked);

/// Rows of order_by_words, int64 [samples, tokens]. Word t of a sample is word t of Philox(seed,
/// kMask, sample number), so that a mask depends on (seed, sample number, token) and neither on the
/// batch, the worker nor the number of calls.
torch::Tensor mask_orders(uint64_t seed, std::span<const int64_t> sample_numbers, int64_t tokens,
                          int64_t masked);

}  // namespace craton::model
