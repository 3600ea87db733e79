#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace craton::volume {

/// A part of a volume: samples low[d] <= index < high[d].
struct Box {
  std::vector<int64_t> low, high;
  int64_t extent(size_t d) const { return high[d] - low[d]; }
  bool operator==(const Box&) const = default;
};

/// A way in which the window lies in the volume.
struct Orientation {
  std::vector<int32_t> axes;    // window axis k runs along volume axis axes[k]
  std::vector<int64_t> shape;   // samples per volume axis
  std::vector<int64_t> stride;  // per volume axis
};

/// Whether a window of this orientation fits somewhere in the box.
bool fits(const Orientation& orientation, const Box& box);

struct Split {
  std::vector<Box> training, validation;
  int32_t axis = -1;  // across which the slabs lie; -1: no validation
};

/// Cuts slabs for validation out of a volume: a share of about `fraction`, at least as thick as a
/// window. Lateral axes come first, the one that loses least wins. Several slabs, spread evenly,
/// when each can be two windows thick. A function of the shapes alone, not of the seed. When no
/// axis has room for a window on both sides, everything is training.
Split split_space(std::span<const int64_t> shape, std::span<const Orientation> orientations,
                  double fraction);

/// Cuts a box into blocks along chunk borders until a block touches about `block_bytes` of chunks
/// (or windows would no longer fit). Cut 1 is displaced by half a block against cut 0. The blocks
/// of one cut cover the box and do not overlap.
std::vector<Box> cut_blocks(const Box& box, std::span<const int64_t> chunk_shape,
                            std::span<const Orientation> orientations, uint64_t block_bytes,
                            int cut);

/// Bytes of the float chunks that a box touches.
uint64_t chunk_bytes_of(const Box& box, std::span<const int64_t> chunk_shape);

/// The origins of a window in a box, divided into cells of about one stride: one axis.
struct CellAxis {
  int64_t low = 0;        // first origin
  int64_t positions = 0;  // number of origins; 0: the window does not fit
  int64_t cells = 0;
  int64_t begin(int64_t cell) const { return low + positions * cell / cells; }
  int64_t size(int64_t cell) const {
    return positions * (cell + 1) / cells - positions * cell / cells;
  }
};
CellAxis cell_axis(int64_t low, int64_t high, int64_t window, int64_t stride);

/// Dead traces by area, for quick counts; the lateral axes of a 2D or 3D volume.
class DeadMap {
 public:
  /// `live` as in Volume::live; `lateral` are the sizes of all axes but the last.
  DeadMap(std::span<const uint8_t> live, std::span<const int64_t> lateral);
  bool any() const { return any_; }
  /// Share of dead traces in a block of the volume; the sample axis does not matter.
  double fraction(std::span<const int64_t> origin, std::span<const int64_t> shape) const;

 private:
  bool any_ = false;
  int64_t rows_ = 1, columns_ = 1;
  std::vector<int64_t> sums_;  // [rows + 1][columns + 1]; empty without dead traces
};

}  // namespace craton::volume
