#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace craton::train {

/// Extents or places on three axes, the last one time or depth.
using Three = std::array<int64_t, 3>;

/// First samples of windows that cover `size` samples: 0, stride, 2 stride, ..., and a last one
/// that ends at the end. `window` is at most `size`, `stride` at most `window`.
std::vector<int64_t> window_origins(int64_t size, int64_t window, int64_t stride);

/// Distance of neighbouring windows that share the part `overlap` (0 to below 1) of their extent;
/// at least 1.
int64_t window_stride(int64_t window, double overlap);

/// Weights of a window's samples along one axis: 1, with a cosine ramp over the `overlap` samples
/// at each end (at most half the window). The ramps of neighbours sum to 1; no weight is 0.
std::vector<float> taper(int64_t window, int64_t overlap);

/// Predictions of overlapping windows, blended trace by trace. Only the samples of a window that
/// were hidden from the model take part. The bits depend on the order of `add`. Holds the rows
/// (places on the first axis) from the first one that was not dropped.
class Blend {
 public:
  struct Geometry {
    Three window, patch, stride;
    int64_t columns = 0, samples = 0;  ///< of the volume's other two axes
  };
  /// `wanted` says which traces are kept; asked once each.
  Blend(const Geometry& geometry, std::function<bool(int64_t row, int64_t column)> wanted);

  struct Window {
    Three origin{};
    std::span<const float> prediction;  ///< [window]
    std::span<const uint8_t> hidden;    ///< one per patch
  };
  void add(const Window& window);

  struct Trace {
    std::span<const float> sum, weight;  ///< a sample is sum / weight; weight 0: nothing is known
    /// All of its samples are known.
    bool complete() const;
  };
  /// Nothing when the trace is not wanted or no window has touched its row. Valid until the next
  /// call that changes the blend.
  std::optional<Trace> trace(int64_t row, int64_t column) const;

  void drop_rows_before(int64_t row);

 private:
  struct Row {
    std::vector<int32_t> slot;  // per column; -1: not wanted
    std::vector<float> sum, weight;
  };
  Row& row_at(int64_t row);
  void add_trace(const Window& window, int64_t row, int64_t column, Row& into) const;

  const Geometry geometry_;
  const std::function<bool(int64_t, int64_t)> wanted_;
  std::array<std::vector<float>, 3> taper_;
  std::map<int64_t, Row> rows_;
};

}  // namespace craton::train
