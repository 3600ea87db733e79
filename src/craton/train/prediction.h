#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "craton/train/loaded_model.h"
#include "craton/volume/volume.h"

namespace craton::train {

/// What all uses of a model on a volume have in common.
struct PredictionOptions {
  std::string out;  ///< store to make
  bool replace = false;
  size_t threads = 1;  ///< each computes windows of its own; the bits do not depend on it
  const std::atomic<bool>* cancel = nullptr;  ///< set: Error kCancelled, and nothing is left
  std::function<void(int64_t done, int64_t total)> progress;  ///< in windows
};

struct FillOptions : PredictionOptions {
  double overlap = 0.5;  ///< share of a window that its neighbour covers too, 0 to below 1
  /// Nothing: fills dead traces. Else a test of the model: this share of each window is hidden and
  /// predicted everywhere, live traces too.
  std::optional<double> mask_ratio;
};

struct FillReport {
  int64_t filled = 0;     ///< traces that were dead and are live now
  int64_t left_dead = 0;  ///< traces without a live one within a window's reach
  int64_t windows = 0;    ///< that the model has seen
  /// With a mask ratio, of predicted samples of live traces: mean squared error over variance.
  std::optional<double> error;
  int64_t shown_row = 0;  ///< place on the first axis where most was filled next to live traces
};

/// Predicts traces in overlapping windows, blends them with a cosine taper and writes the volume
/// with them as an MDIO store: same axes, positions, chunks and type of samples; live samples stay
/// as they are, to the bit. Goes along the first axis; of the volume only the predicted traces of a
/// window's (or a chunk's) thickness and a bounded number of chunks are in memory.
FillReport fill_traces(const LoadedModel& model, std::shared_ptr<const volume::Volume> volume,
                       const FillOptions& options);

/// The model's features of each patch, over windows side by side (the last one of an axis ends at
/// the last whole patch), as a Zarr v3 array float32 [patches per axis..., dim], one chunk a
/// window. NaN where a window has no live trace. Returns the array's shape.
std::vector<int64_t> embed_patches(const LoadedModel& model,
                                   std::shared_ptr<const volume::Volume> volume,
                                   const PredictionOptions& options);

}  // namespace craton::train
