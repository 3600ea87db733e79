#pragma once

#include "craton/model/patches.h"
#include "craton/tensor/torch.h"

namespace craton::model {

/// Fixed sine and cosine positions, double [tokens, dim]. The dim/2 frequencies are dealt out to
/// the axes that have more than one patch, as evenly as they go, the first axes taking what is left
/// over; frequency f of n of an axis turns by place * 10000^(-f/n). All sines stand before all
/// cosines. `dim` is even. (He et al., "Masked autoencoders are scalable vision learners", 2021.)
torch::Tensor sin_cos_positions(const PatchGrid& grid, int64_t dim);

/// The angles of rotary positions, double [tokens, head_dim/2]: frequencies dealt out as above,
/// place * base^(-f/n). (Su et al., "RoFormer", 2021; Heo et al., "Rotary position embedding for
/// vision transformer", 2024.)
torch::Tensor rotary_angles(const PatchGrid& grid, int64_t head_dim, double base);

}  // namespace craton::model
