#include "craton/volume/sampling/space.h"

#include <algorithm>
#include <cmath>

#include "craton/base/check.h"

namespace craton::volume {
namespace {

int64_t largest_window(std::span<const Orientation> orientations, size_t d) {
  int64_t n = 0;
  for (const Orientation& o : orientations) n = std::max(n, o.shape[d]);
  return n;
}

int64_t smallest_window(std::span<const Orientation> orientations, size_t d) {
  int64_t n = orientations[0].shape[d];
  for (const Orientation& o : orientations) n = std::min(n, o.shape[d]);
  return n;
}

int64_t floor_div(int64_t a, int64_t b) { return a / b; }
int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Borders of `parts` blocks along one axis of a box, at chunk borders; cut 1 starts and ends with
// half a block.
std::vector<int64_t> borders(int64_t low, int64_t high, int64_t chunk, int64_t parts, int cut) {
  std::vector<int64_t> out = {low};
  const int64_t first = floor_div(low, chunk), chunks = ceil_div(high, chunk) - first;
  const bool displaced = cut == 1 && parts > 1;
  for (int64_t j = 1; j < parts + (displaced ? 1 : 0); ++j) {
    const int64_t at = displaced ? (2 * j - 1) * chunks / (2 * parts) : j * chunks / parts;
    const int64_t border = (first + at) * chunk;
    if (border > out.back() && border < high) out.push_back(border);
  }
  out.push_back(high);
  return out;
}

// Smallest extent between borders, and the most chunks that one block touches.
struct Spans {
  int64_t smallest, most_chunks;
};
Spans spans_of(const std::vector<int64_t>& b, int64_t chunk) {
  Spans s{b.back() - b.front(), 0};
  for (size_t n = 0; n + 1 < b.size(); ++n) {
    s.smallest = std::min(s.smallest, b[n + 1] - b[n]);
    s.most_chunks = std::max(s.most_chunks, ceil_div(b[n + 1], chunk) - floor_div(b[n], chunk));
  }
  return s;
}

}  // namespace

bool fits(const Orientation& orientation, const Box& box) {
  for (size_t d = 0; d < box.low.size(); ++d) {
    if (orientation.shape[d] > box.extent(d)) return false;
  }
  return true;
}

Split split_space(std::span<const int64_t> shape, std::span<const Orientation> orientations,
                  double fraction) {
  const Box all{std::vector<int64_t>(shape.size(), 0),
                std::vector<int64_t>(shape.begin(), shape.end())};
  Split split{{all}, {}, -1};
  if (fraction <= 0) return split;
  int64_t thickness = 0;
  double least = 1;
  const auto consider = [&](size_t d) {
    const int64_t window = smallest_window(orientations, d);
    const int64_t wanted =
        std::max<int64_t>(window, std::llround(fraction * static_cast<double>(shape[d])));
    const double share = static_cast<double>(wanted) / static_cast<double>(shape[d]);
    if (shape[d] - wanted < window || share >= least) return;
    least = share;
    thickness = wanted;
    split.axis = static_cast<int32_t>(d);
  };
  for (size_t d = 0; d + 1 < shape.size(); ++d) consider(d);
  if (split.axis < 0) consider(shape.size() - 1);
  if (split.axis < 0) return split;

  const auto axis = static_cast<size_t>(split.axis);
  const int64_t n = shape[axis], window = largest_window(orientations, axis);
  const int64_t slabs = std::clamp<int64_t>(thickness / (2 * window), 1, 4);
  split.training.clear();
  int64_t from = 0;
  const auto part = [&](int64_t low, int64_t high) {
    Box box = all;
    box.low[axis] = low;
    box.high[axis] = high;
    return box;
  };
  for (int64_t k = 0; k < slabs; ++k) {
    const int64_t size = thickness * (k + 1) / slabs - thickness * k / slabs;
    const int64_t low = slabs == 1 ? n - size : n * (2 * k + 1) / (2 * slabs) - size / 2;
    split.validation.push_back(part(low, low + size));
    if (low > from) split.training.push_back(part(from, low));
    from = low + size;
  }
  if (from < n) split.training.push_back(part(from, n));
  return split;
}

uint64_t chunk_bytes_of(const Box& box, std::span<const int64_t> chunk_shape) {
  uint64_t bytes = sizeof(float);
  for (size_t d = 0; d < chunk_shape.size(); ++d) {
    const int64_t c = chunk_shape[d];
    bytes *= static_cast<uint64_t>((ceil_div(box.high[d], c) - floor_div(box.low[d], c)) * c);
  }
  return bytes;
}

std::vector<Box> cut_blocks(const Box& box, std::span<const int64_t> chunk_shape,
                            std::span<const Orientation> orientations, uint64_t block_bytes,
                            int cut) {
  const size_t rank = chunk_shape.size();
  std::vector<int64_t> parts(rank, 1);
  // Both cuts count, so that they have the same number of parts.
  const auto bytes = [&] {
    uint64_t product = sizeof(float);
    for (size_t d = 0; d < rank; ++d) {
      int64_t most = 0;
      for (const int c : {0, 1}) {
        most = std::max(
            most,
            spans_of(borders(box.low[d], box.high[d], chunk_shape[d], parts[d], c), chunk_shape[d])
                .most_chunks);
      }
      product *= static_cast<uint64_t>(most * chunk_shape[d]);
    }
    return product;
  };
  const auto can_cut = [&](size_t d) {
    for (const int c : {0, 1}) {
      const auto b = borders(box.low[d], box.high[d], chunk_shape[d], parts[d] + 1, c);
      if (static_cast<int64_t>(b.size()) != parts[d] + 2 + c)
        return false;  // fewer chunks than parts
      if (spans_of(b, chunk_shape[d]).smallest < largest_window(orientations, d)) return false;
    }
    return true;
  };
  while (bytes() > block_bytes) {
    size_t best = rank;
    double longest = 0;
    for (size_t d = 0; d < rank; ++d) {
      const double length = static_cast<double>(box.extent(d)) /
                            static_cast<double>(parts[d] * largest_window(orientations, d));
      if (length > longest && can_cut(d)) longest = length, best = d;
    }
    if (best == rank) break;
    ++parts[best];
  }
  std::vector<Box> blocks = {Box{}};
  for (size_t d = 0; d < rank; ++d) {
    const auto b = borders(box.low[d], box.high[d], chunk_shape[d], parts[d], cut);
    std::vector<Box> longer;
    for (const Box& block : blocks) {
      for (size_t n = 0; n + 1 < b.size(); ++n) {
        Box next = block;
        next.low.push_back(b[n]);
        next.high.push_back(b[n + 1]);
        longer.push_back(std::move(next));
      }
    }
    blocks = std::move(longer);
  }
  return blocks;
}

CellAxis cell_axis(int64_t low, int64_t high, int64_t window, int64_t stride) {
  CellAxis axis;
  axis.low = low;
  axis.positions = std::max<int64_t>(0, high - low - window + 1);
  axis.cells = ceil_div(axis.positions, stride);
  return axis;
}

DeadMap::DeadMap(std::span<const uint8_t> live, std::span<const int64_t> lateral) {
  CRATON_CHECK(lateral.size() == 1 || lateral.size() == 2);
  any_ = std::find(live.begin(), live.end(), 0) != live.end();
  if (!any_) return;
  columns_ = lateral.back();
  rows_ = lateral.size() == 2 ? lateral[0] : 1;
  CRATON_CHECK(live.size() == static_cast<size_t>(rows_ * columns_));
  sums_.resize(static_cast<size_t>((rows_ + 1) * (columns_ + 1)));
  for (int64_t r = 0; r < rows_; ++r) {
    int64_t row = 0;
    for (int64_t c = 0; c < columns_; ++c) {
      row += live[static_cast<size_t>(r * columns_ + c)] == 0;
      sums_[static_cast<size_t>((r + 1) * (columns_ + 1) + c + 1)] =
          sums_[static_cast<size_t>(r * (columns_ + 1) + c + 1)] + row;
    }
  }
}

double DeadMap::fraction(std::span<const int64_t> origin, std::span<const int64_t> shape) const {
  if (!any_) return 0;
  const bool map = origin.size() == 3;
  const int64_t r = map ? origin[0] : 0, rows = map ? shape[0] : 1;
  const int64_t c = map ? origin[1] : origin[0], columns = map ? shape[1] : shape[0];
  const auto at = [&](int64_t row, int64_t column) {
    return sums_[static_cast<size_t>(row * (columns_ + 1) + column)];
  };
  const int64_t dead = at(r + rows, c + columns) - at(r, c + columns) - at(r + rows, c) + at(r, c);
  return static_cast<double>(dead) / static_cast<double>(rows * columns);
}

}  // namespace craton::volume
