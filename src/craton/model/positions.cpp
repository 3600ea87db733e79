#include "craton/model/positions.h"

#include <cmath>

#include "craton/base/check.h"

namespace craton::model {
namespace {

torch::Tensor angles(const PatchGrid& grid, int64_t frequencies, double base) {
  const auto count = grid.count();
  std::vector<int> axes;
  for (int a = 0; a < 3; ++a) {
    if (count[a] > 1) axes.push_back(a);
  }
  if (axes.empty()) axes.push_back(2);
  torch::Tensor table = torch::empty({grid.tokens(), frequencies}, torch::kDouble);
  double* out = table.data_ptr<double>();
  for (int64_t t = 0; t < grid.tokens(); ++t) {
    const int64_t place[3] = {t / (count[1] * count[2]), t / count[2] % count[1], t % count[2]};
    const auto used = static_cast<int64_t>(axes.size());
    for (int64_t a = 0; a < used; ++a) {
      const int64_t n = frequencies / used + (a < frequencies % used ? 1 : 0);
      for (int64_t f = 0; f < n; ++f) {
        *out++ = static_cast<double>(place[axes[a]]) *
                 std::pow(base, -static_cast<double>(f) / static_cast<double>(n));
      }
    }
  }
  return table;
}

}  // namespace

torch::Tensor sin_cos_positions(const PatchGrid& grid, int64_t dim) {
  CRATON_CHECK(dim % 2 == 0, "dim {}", dim);
  const torch::Tensor turns = angles(grid, dim / 2, 10000);
  return torch::cat({turns.sin(), turns.cos()}, 1);
}

torch::Tensor rotary_angles(const PatchGrid& grid, int64_t head_dim, double base) {
  CRATON_CHECK(head_dim % 2 == 0, "head_dim {}", head_dim);
  return angles(grid, head_dim / 2, base);
}

}  // namespace craton::model
