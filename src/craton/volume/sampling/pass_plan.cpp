#include "craton/volume/sampling/pass_plan.h"

#include <algorithm>
#include <numeric>

#include "craton/base/check.h"
#include "craton/volume/sampling/permutation.h"

namespace craton::volume {
namespace {

constexpr int64_t kGroupBlocks = 4;        // blocks that are shuffled together, when they fit
constexpr uint64_t kPassStride = 1 << 24;  // room for the groups of one pass in a random stream

}  // namespace

struct PassPlan::Order {
  int64_t pass = 0;
  std::vector<int32_t> blocks;        // shuffled
  std::vector<int64_t> first_block;   // of each group, and one past the end
  std::vector<int64_t> first_window;  // of each group in the pass, and the number of windows
  std::vector<int64_t>
      block_window;  // of each place in `blocks`: its first window within the group
};

bool has_live_origin(const DeadMap& dead, const Orientation& orientation,
                     std::span<const int64_t> begin, std::span<const int64_t> size, double limit) {
  std::vector<int64_t> origin(begin.begin(), begin.end());
  const size_t lateral = begin.size() - 1;
  for (;;) {
    if (dead.fraction(origin, orientation.shape) <= limit) return true;
    size_t d = lateral;
    while (d-- > 0) {
      if (++origin[d] < begin[d] + size[d]) break;
      origin[d] = begin[d];
    }
    if (d == static_cast<size_t>(-1)) return false;
  }
}

namespace {

// Splits a lateral cell number into one number per lateral axis.
void lateral_cell(const CellGrid& grid, int64_t cell, std::span<int64_t> begin,
                  std::span<int64_t> size) {
  for (size_t d = grid.axes.size() - 1; d-- > 0;) {
    const CellAxis& axis = grid.axes[d];
    begin[d] = axis.begin(cell % axis.cells);
    size[d] = axis.size(cell % axis.cells);
    cell /= axis.cells;
  }
}

CellGrid make_grid(const Box& box, const Orientation& orientation, int32_t number,
                   const DeadMap& dead, double limit) {
  CellGrid grid;
  grid.orientation = number;
  const size_t rank = box.low.size();
  grid.lateral_cells = 1;
  for (size_t d = 0; d < rank; ++d) {
    grid.axes.push_back(
        cell_axis(box.low[d], box.high[d], orientation.shape[d], orientation.stride[d]));
    if (d + 1 < rank) grid.lateral_cells *= grid.axes[d].cells;
  }
  if (dead.any() && grid.lateral_cells > 0) {
    CRATON_CHECK(grid.lateral_cells < int64_t{1} << 32);
    std::vector<int64_t> begin(rank, 0), size(rank, 1);
    for (int64_t cell = 0; cell < grid.lateral_cells; ++cell) {
      lateral_cell(grid, cell, begin, size);
      if (has_live_origin(dead, orientation, begin, size, limit))
        grid.usable.push_back(static_cast<uint32_t>(cell));
    }
    grid.all = static_cast<int64_t>(grid.usable.size()) == grid.lateral_cells;
    grid.lateral_cells = static_cast<int64_t>(grid.usable.size());
    if (grid.all) grid.usable = {};
  }
  grid.windows = grid.lateral_cells * grid.axes.back().cells;
  return grid;
}

}  // namespace

PassPlan::PassPlan(std::span<const int64_t> shape, std::span<const int64_t> chunk_shape,
                   std::vector<Orientation> orientations, const Split& split, const DeadMap& dead,
                   double dead_limit, uint64_t group_bytes, uint64_t seed, uint32_t volume)
    : orientations_(std::move(orientations)),
      group_bytes_(group_bytes),
      chunk_shape_(chunk_shape.begin(), chunk_shape.end()),
      seed_(seed),
      volume_(volume) {
  for (const int cut : {0, 1}) {
    for (const Box& part : split.training) {
      for (Box& box :
           cut_blocks(part, chunk_shape, orientations_, group_bytes / kGroupBlocks, cut)) {
        Block block{std::move(box), {}, 0};
        for (size_t o = 0; o < orientations_.size(); ++o) {
          CellGrid grid =
              make_grid(block.box, orientations_[o], static_cast<int32_t>(o), dead, dead_limit);
          block.windows += grid.windows;
          if (grid.windows > 0) block.grids.push_back(std::move(grid));
        }
        windows_[cut] += block.windows;
        if (block.windows > 0) blocks_[cut].push_back(std::move(block));
      }
    }
    CRATON_CHECK(blocks_[cut].size() < kPassStride);
  }
}

PassPlan::~PassPlan() = default;

std::shared_ptr<const PassPlan::Order> PassPlan::order_of(int64_t pass) const {
  const std::lock_guard lock(mutex_);
  for (const auto& order : recent_) {
    if (order->pass == pass) return order;
  }
  const std::vector<Block>& blocks = blocks_[pass % 2];
  auto order = std::make_shared<Order>();
  order->pass = pass;
  order->blocks.resize(blocks.size());
  std::iota(order->blocks.begin(), order->blocks.end(), 0);
  const Philox random(seed_, RandomPurpose::kSampleOrder, static_cast<uint64_t>(pass) * kPassStride,
                      volume_);
  for (size_t n = blocks.size(); n > 1; --n) {
    std::swap(order->blocks[n - 1], order->blocks[random.below(n, n)]);
  }
  // Groups: neighbours in the shuffled order, up to kGroupBlocks and up to the working set.
  int64_t window = 0, in_group = 0;
  uint64_t bytes = 0;
  for (size_t n = 0; n < blocks.size(); ++n) {
    const Block& block = blocks[static_cast<size_t>(order->blocks[n])];
    const uint64_t more = chunk_bytes_of(block.box, chunk_shape_);
    const int64_t size =
        order->first_block.empty() ? 0 : static_cast<int64_t>(n) - order->first_block.back();
    if (n == 0 || size == kGroupBlocks || bytes + more > group_bytes_) {
      order->first_block.push_back(static_cast<int64_t>(n));
      order->first_window.push_back(window);
      bytes = 0;
      in_group = 0;
    }
    order->block_window.push_back(in_group);
    bytes += more;
    in_group += block.windows;
    window += block.windows;
  }
  order->first_block.push_back(static_cast<int64_t>(blocks.size()));
  order->first_window.push_back(window);
  if (recent_.size() >= 4) recent_.erase(recent_.begin());
  recent_.push_back(order);
  return order;
}

PassPlan::Cell PassPlan::cell(int64_t index, int64_t& pass) const {
  const int64_t two = windows_of_two();
  CRATON_CHECK(two > 0 && index >= 0);
  pass = index / two * 2;
  index %= two;
  if (index >= windows_[0]) {
    index -= windows_[0];
    ++pass;
  }
  const auto order = order_of(pass);
  const auto after =
      std::upper_bound(order->first_window.begin(), order->first_window.end(), index);
  const size_t group = static_cast<size_t>(after - order->first_window.begin()) - 1;
  const int64_t size = order->first_window[group + 1] - order->first_window[group];
  const Permutation shuffle(size,
                            Philox(seed_, RandomPurpose::kSampleOrder,
                                   static_cast<uint64_t>(pass) * kPassStride + group + 1, volume_));
  const int64_t place = shuffle(index - order->first_window[group]);
  const auto begin = order->block_window.begin() + order->first_block[group];
  const auto end = order->block_window.begin() + order->first_block[group + 1];
  const auto block = std::upper_bound(begin, end, place) - 1;
  const auto number = static_cast<size_t>(block - order->block_window.begin());
  return cell_of(blocks_[pass % 2][static_cast<size_t>(order->blocks[number])], place - *block);
}

PassPlan::Cell PassPlan::cell_of(const Block& block, int64_t index) const {
  size_t g = 0;
  while (index >= block.grids[g].windows) index -= block.grids[g++].windows;
  const CellGrid& grid = block.grids[g];
  const size_t rank = grid.axes.size();
  const CellAxis& samples = grid.axes.back();
  Cell cell;
  cell.orientation = grid.orientation;
  cell.begin.resize(rank);
  cell.size.resize(rank);
  cell.begin[rank - 1] = samples.begin(index % samples.cells);
  cell.size[rank - 1] = samples.size(index % samples.cells);
  const int64_t lateral = index / samples.cells;
  lateral_cell(grid, grid.all ? lateral : grid.usable[static_cast<size_t>(lateral)], cell.begin,
               cell.size);
  return cell;
}

}  // namespace craton::volume
