#include "craton/model/positions.h"

#include <cmath>

#include "craton/base/check.h"

namespace craton::model {
namespace {

torch::Tensor all_rows(const TokenTable& table, const PatchGrid& grid) {
  return table.rows(torch::arange(grid.tokens(), torch::kInt64).unsqueeze(0))[0];
}

}  // namespace

std::vector<TokenTable::Columns> TokenTable::angles(const PatchGrid& grid, int64_t frequencies,
                                                    double base) {
  const auto count = grid.count();
  std::vector<int> axes;
  for (int a = 0; a < 3; ++a) {
    if (count[static_cast<size_t>(a)] > 1) axes.push_back(a);
  }
  if (axes.empty()) axes.push_back(2);
  const auto used = static_cast<int64_t>(axes.size());
  std::vector<Columns> columns;
  for (int64_t a = 0; a < used; ++a) {
    const int axis = axes[static_cast<size_t>(a)];
    const int64_t n = frequencies / used + (a < frequencies % used ? 1 : 0);
    const int64_t places = count[static_cast<size_t>(axis)];
    torch::Tensor values = torch::empty({places, n}, torch::kDouble);
    double* out = values.data_ptr<double>();
    for (int64_t place = 0; place < places; ++place) {
      for (int64_t f = 0; f < n; ++f) {
        *out++ = static_cast<double>(place) *
                 std::pow(base, -static_cast<double>(f) / static_cast<double>(n));
      }
    }
    columns.push_back({axis, std::move(values)});
  }
  return columns;
}

torch::Tensor TokenTable::rows(const torch::Tensor& ids) const {
  const torch::Tensor flat = ids.reshape({-1});
  const torch::Tensor in_row = torch::div(flat, count_[2], "floor");
  const std::array<torch::Tensor, 3> place = {torch::div(in_row, count_[1], "floor"),
                                              torch::remainder(in_row, count_[1]),
                                              torch::remainder(flat, count_[2])};
  std::vector<torch::Tensor> parts;
  for (const Columns& columns : columns_)
    parts.push_back(columns.values.index_select(0, place[static_cast<size_t>(columns.axis)]));
  const torch::Tensor rows = torch::cat(parts, 1);
  return rows.view({ids.size(0), ids.size(1), rows.size(1)});
}

TokenTable sin_cos_table(const PatchGrid& grid, int64_t dim) {
  CRATON_CHECK(dim % 2 == 0, "dim {}", dim);
  TokenTable table;
  table.count_ = grid.count();
  const auto turns = TokenTable::angles(grid, dim / 2, 10000);
  for (const auto& columns : turns) table.columns_.push_back({columns.axis, columns.values.sin()});
  for (const auto& columns : turns) table.columns_.push_back({columns.axis, columns.values.cos()});
  return table;
}

TokenTable rotary_table(const PatchGrid& grid, int64_t head_dim, double base) {
  CRATON_CHECK(head_dim % 2 == 0, "head_dim {}", head_dim);
  TokenTable table;
  table.count_ = grid.count();
  table.columns_ = TokenTable::angles(grid, head_dim / 2, base);
  return table;
}

torch::Tensor sin_cos_positions(const PatchGrid& grid, int64_t dim) {
  return all_rows(sin_cos_table(grid, dim), grid);
}

torch::Tensor rotary_angles(const PatchGrid& grid, int64_t head_dim, double base) {
  return all_rows(rotary_table(grid, head_dim, base), grid);
}

}  // namespace craton::model
