#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "craton/volume/sampling/space.h"

namespace craton::volume {

/// The cells of one block in one orientation.
struct CellGrid {
  int32_t orientation = 0;
  std::vector<CellAxis> axes;    // per volume axis
  std::vector<uint32_t> usable;  // lateral cells with few dead traces; empty with `all`
  bool all = true;               // every lateral cell can be used
  int64_t lateral_cells = 0;     // usable ones
  int64_t windows = 0;           // lateral_cells x cells along the samples
};

struct Block {
  Box box;
  std::vector<CellGrid> grids;
  int64_t windows = 0;
};

/// Everything about the training part of one volume that does not change: two ways of cutting it
/// into blocks, and their cells. A pass over the volume uses every usable cell of one cut once.
class PassPlan {
 public:
  /// A cell that a pass visits.
  struct Cell {
    int32_t orientation = 0;
    std::vector<int64_t> begin, size;  // origins that it holds, per volume axis
  };

  /// `group_bytes` of chunks are shuffled together.
  PassPlan(std::span<const int64_t> shape, std::span<const int64_t> chunk_shape,
           std::vector<Orientation> orientations, const Split& split, const DeadMap& dead,
           double dead_limit, uint64_t group_bytes, uint64_t seed, uint32_t volume);
  ~PassPlan();

  int64_t windows(int64_t pass) const { return windows_[pass % 2]; }
  /// Both cuts.
  int64_t windows_of_two() const { return windows_[0] + windows_[1]; }
  const std::vector<Orientation>& orientations() const { return orientations_; }

  /// Number `index` of this volume's endless sequence of windows; fills `pass`.
  Cell cell(int64_t index, int64_t& pass) const;

 private:
  struct Order;  // of the blocks in one pass
  std::shared_ptr<const Order> order_of(int64_t pass) const;
  Cell cell_of(const Block& block, int64_t index) const;

  std::vector<Orientation> orientations_;
  std::vector<Block> blocks_[2];
  int64_t windows_[2] = {0, 0};
  uint64_t group_bytes_;
  std::vector<int64_t> chunk_shape_;
  uint64_t seed_;
  uint32_t volume_;
  // The orders of the last passes that somebody asked for: a memo, not a state.
  mutable std::mutex mutex_;
  mutable std::vector<std::shared_ptr<const Order>> recent_;
};

/// Whether some origin of the cell has a window with at most `limit` dead traces.
bool has_live_origin(const DeadMap& dead, const Orientation& orientation,
                     std::span<const int64_t> begin, std::span<const int64_t> size, double limit);

}  // namespace craton::volume
