#include "craton/model/patches.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "craton/base/check.h"

namespace craton::model {
namespace {

constexpr double kVarianceEpsilon = 1e-6;

// Calls visit(offset of a run in its window, offset of the run in its patch) for each run of
// `patch[2]` samples of patch `id`.
template <typename Visit>
void for_each_run(const PatchGrid& grid, int64_t id, Visit visit) {
  const auto count = grid.count();
  const int64_t z = id / (count[1] * count[2]) * grid.patch[0];
  const int64_t y = id / count[2] % count[1] * grid.patch[1];
  const int64_t x = id % count[2] * grid.patch[2];
  int64_t in_patch = 0;
  for (int64_t i = 0; i < grid.patch[0]; ++i) {
    for (int64_t j = 0; j < grid.patch[1]; ++j, in_patch += grid.patch[2]) {
      visit(((z + i) * grid.window[1] + y + j) * grid.window[2] + x, in_patch);
    }
  }
}

int64_t window_samples(const PatchGrid& grid) {
  return grid.window[0] * grid.window[1] * grid.window[2];
}

// Sums in 8 lanes that are added in a fixed order: fast without reassociation by the compiler.
template <typename T, typename Term>
double lane_sum(int64_t n, Term term) {
  T lanes[8] = {};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (int l = 0; l < 8; ++l) lanes[l] += term(i + l);
  }
  double sum = 0;
  for (; i < n; ++i) sum += term(i);
  for (T lane : lanes) sum += lane;
  return sum;
}

// Normalises one patch; returns false when it is dead.
template <typename T>
bool normalise(const T* in, int64_t n, T* out, T* mean_out, T* scale_out) {
  const double mean = lane_sum<T>(n, [&](int64_t i) { return in[i]; }) / static_cast<double>(n);
  const T m = static_cast<T>(mean);
  const double squares = lane_sum<T>(n, [&](int64_t i) { return (in[i] - m) * (in[i] - m); });
  const double variance = squares / static_cast<double>(std::max<int64_t>(n - 1, 1));
  const double scale = std::sqrt(variance + kVarianceEpsilon);
  const T inverse = static_cast<T>(1 / scale);
  for (int64_t i = 0; i < n; ++i) out[i] = (in[i] - m) * inverse;
  *mean_out = m;
  *scale_out = static_cast<T>(scale);
  return !(mean == 0 && squares == 0);
}

}  // namespace

PatchGrid::PatchGrid(const std::vector<int64_t>& window_shape,
                     const std::vector<int64_t>& patch_shape)
    : axes(static_cast<int>(window_shape.size())) {
  CRATON_CHECK((axes == 2 || axes == 3) && patch_shape.size() == window_shape.size());
  std::copy(window_shape.begin(), window_shape.end(), window.begin() + (3 - axes));
  std::copy(patch_shape.begin(), patch_shape.end(), patch.begin() + (3 - axes));
  for (int a = 0; a < 3; ++a) CRATON_CHECK(patch[a] > 0 && window[a] % patch[a] == 0);
}

std::array<int64_t, 3> PatchGrid::count() const {
  return {window[0] / patch[0], window[1] / patch[1], window[2] / patch[2]};
}

int64_t PatchGrid::tokens() const {
  const auto n = count();
  return n[0] * n[1] * n[2];
}

int64_t PatchGrid::patch_samples() const { return patch[0] * patch[1] * patch[2]; }

std::vector<int64_t> PatchGrid::window_shape() const {
  return {window.begin() + (3 - axes), window.end()};
}

torch::Tensor gather_patches(const torch::Tensor& windows, const PatchGrid& grid,
                             const torch::Tensor& ids) {
  const torch::Tensor from = windows.contiguous();
  const torch::Tensor which = ids.contiguous();
  const int64_t batch = ids.size(0), k = ids.size(1), samples = grid.patch_samples();
  torch::Tensor rows = torch::empty({batch, k, samples}, from.options());
  AT_DISPATCH_FLOATING_TYPES(from.scalar_type(), "gather_patches", [&] {
    const int64_t* id = which.data_ptr<int64_t>();
    scalar_t* out = rows.data_ptr<scalar_t>();
    for (int64_t b = 0; b < batch; ++b) {
      const scalar_t* window = from.data_ptr<scalar_t>() + b * window_samples(grid);
      for (int64_t i = 0; i < k; ++i, ++id, out += samples) {
        for_each_run(grid, *id, [&](int64_t in_window, int64_t in_patch) {
          std::memcpy(out + in_patch, window + in_window, grid.patch[2] * sizeof(scalar_t));
        });
      }
    }
  });
  return rows;
}

void scatter_patches(const torch::Tensor& rows, const PatchGrid& grid, const torch::Tensor& ids,
                     torch::Tensor windows) {
  CRATON_CHECK(windows.is_contiguous());
  const torch::Tensor from = rows.to(windows.scalar_type()).contiguous();
  const torch::Tensor which = ids.contiguous();
  const int64_t batch = ids.size(0), k = ids.size(1), samples = grid.patch_samples();
  AT_DISPATCH_FLOATING_TYPES(windows.scalar_type(), "scatter_patches", [&] {
    const int64_t* id = which.data_ptr<int64_t>();
    const scalar_t* in = from.data_ptr<scalar_t>();
    for (int64_t b = 0; b < batch; ++b) {
      scalar_t* window = windows.data_ptr<scalar_t>() + b * window_samples(grid);
      for (int64_t i = 0; i < k; ++i, ++id, in += samples) {
        for_each_run(grid, *id, [&](int64_t in_window, int64_t in_patch) {
          std::memcpy(window + in_window, in + in_patch, grid.patch[2] * sizeof(scalar_t));
        });
      }
    }
  });
}

PatchTargets patch_targets(const torch::Tensor& rows_in) {
  const torch::Tensor rows = rows_in.contiguous();
  const int64_t batch = rows.size(0), k = rows.size(1), samples = rows.size(2);
  PatchTargets t{torch::empty_like(rows), torch::empty({batch, k}, rows.options()),
                 torch::empty({batch, k}, rows.options()),
                 torch::zeros({batch, k}, rows.options())};
  AT_DISPATCH_FLOATING_TYPES(rows.scalar_type(), "patch_targets", [&] {
    const scalar_t* in = rows.data_ptr<scalar_t>();
    scalar_t* weight = t.weight.data_ptr<scalar_t>();
    for (int64_t b = 0; b < batch; ++b, weight += k) {
      int64_t live = 0;
      for (int64_t i = 0; i < k; ++i) {
        const int64_t row = b * k + i;
        const bool alive =
            normalise(in + row * samples, samples, t.values.data_ptr<scalar_t>() + row * samples,
                      t.mean.data_ptr<scalar_t>() + row, t.scale.data_ptr<scalar_t>() + row);
        weight[i] = alive;
        live += alive;
      }
      const double share = live == 0 ? 0 : 1.0 / (static_cast<double>(batch) * live);
      for (int64_t i = 0; i < k; ++i) weight[i] *= static_cast<scalar_t>(share);
    }
  });
  return t;
}

torch::Tensor patches_with_dead_traces(const torch::Tensor& windows, const PatchGrid& grid) {
  const auto count = grid.count();
  const int64_t batch = windows.size(0);
  // [batch, z, patch z, y, patch y]: whether a trace is dead; then any within a patch column.
  const torch::Tensor dead =
      windows.reshape({batch, count[0], grid.patch[0], count[1], grid.patch[1], grid.window[2]})
          .eq(0)
          .all(-1);
  const torch::Tensor column = dead.any(4).any(2);  // [batch, count z, count y]
  return column.unsqueeze(-1)
      .expand({batch, count[0], count[1], count[2]})
      .reshape({batch, grid.tokens()});
}

}  // namespace craton::model
