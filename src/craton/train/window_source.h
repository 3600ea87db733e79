#pragma once

#include <memory>
#include <vector>

#include "craton/recipe/recipe.h"
#include "craton/tensor/torch.h"
#include "craton/train/blending.h"
#include "craton/volume/sampling/chunk_cache.h"
#include "craton/volume/sampling/normalisation.h"
#include "craton/volume/sampling/space.h"
#include "craton/volume/volume.h"

namespace craton::train {

/// How a model's windows lie in a volume. Both have three axes here: a line is [traces, 1,
/// samples], a window of a section has extent 1 across it.
struct Tiling {
  Three volume{}, window{}, patch{}, chunk{};
  bool line = false;

  /// Error when the window is no window of this volume: other axes, or larger.
  Tiling(const volume::VolumeInfo& info, const recipe::DataRecipe& data,
         const std::vector<int64_t>& patch);

  /// For calls that want the volume's own axes.
  std::vector<int64_t> own(const Three& three) const;
};

/// One byte per trace: 0 where nothing was recorded, be it that the volume says so or that all
/// samples are 0. Reads as much of the volume as it takes.
std::vector<uint8_t> recorded_traces(const volume::Volume& volume, const Tiling& tiling,
                                     size_t threads);

/// Windows of a volume as the model saw them in training. Thread-safe.
class WindowSource {
 public:
  WindowSource(std::shared_ptr<const volume::Volume> volume, const recipe::DataRecipe& data,
               const std::vector<int64_t>& patch, size_t threads);

  const volume::Volume& volume() const { return *volume_; }
  const Tiling& tiling() const { return tiling_; }
  const volume::Normalisation& normalisation() const { return normalisation_; }
  bool recorded(int64_t row, int64_t column) const {
    return recorded_[static_cast<size_t>(row * tiling_.volume[1] + column)] != 0;
  }
  /// Share of the traces of a box where nothing was recorded; exactly 0 or 1 for none and all.
  double dead_share(const Three& origin, const Three& shape) const {
    return dead_.fraction(tiling_.own(origin), tiling_.own(shape));
  }
  /// [1, window...], normalised; dead traces are 0.
  torch::Tensor read(const Three& origin);

 private:
  const std::shared_ptr<const volume::Volume> volume_;
  const std::vector<int64_t> window_shape_;
  const Tiling tiling_;
  const volume::Normalisation normalisation_;
  const std::vector<uint8_t> recorded_;
  const volume::DeadMap dead_;
  volume::ByteCount bytes_;
  volume::ChunkCache cache_;
};

}  // namespace craton::train
