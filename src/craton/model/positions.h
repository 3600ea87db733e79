#pragma once

#include <array>
#include <vector>

#include "craton/model/patches.h"
#include "craton/tensor/torch.h"

namespace craton::model {

/// A table with a row for each token of a grid, of which only the rows that are asked for are ever
/// made: it is put together from one small table per axis.
class TokenTable {
 public:
  TokenTable() = default;
  /// Rows `ids` (int64 [batch, k]): double [batch, k, width].
  torch::Tensor rows(const torch::Tensor& ids) const;
  bool defined() const { return !columns_.empty(); }

 private:
  friend TokenTable sin_cos_table(const PatchGrid& grid, int64_t dim);
  friend TokenTable rotary_table(const PatchGrid& grid, int64_t head_dim, double base);
  struct Columns {
    int axis;
    torch::Tensor values;  // double [patches of the axis, some of the columns]
  };
  static std::vector<Columns> angles(const PatchGrid& grid, int64_t frequencies, double base);

  std::array<int64_t, 3> count_{};
  std::vector<Columns> columns_;
};

/// Fixed sine and cosine positions, width `dim`. The dim/2 frequencies are dealt out to the axes
/// that have more than one patch, as evenly as they go, the first axes taking what is left over;
/// frequency f of n of an axis turns by place * 10000^(-f/n). All sines stand before all cosines.
/// `dim` is even. (He et al., "Masked autoencoders are scalable vision learners", 2021.)
TokenTable sin_cos_table(const PatchGrid& grid, int64_t dim);

/// The angles of rotary positions, width head_dim/2: frequencies dealt out as above, place *
/// base^(-f/n). (Su et al., "RoFormer", 2021; Heo et al., "Rotary position embedding for vision
/// transformer", 2024.)
TokenTable rotary_table(const PatchGrid& grid, int64_t head_dim, double base);

/// All rows: double [tokens, width].
torch::Tensor sin_cos_positions(const PatchGrid& grid, int64_t dim);
torch::Tensor rotary_angles(const PatchGrid& grid, int64_t head_dim, double base);

}  // namespace craton::model
