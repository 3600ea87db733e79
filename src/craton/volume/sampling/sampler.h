#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "craton/volume/sampling/normalisation.h"
#include "craton/volume/sampling/turns.h"
#include "craton/volume/volume.h"

namespace craton::volume {

class DeadMap;

struct Augmentation {
  bool flip = true;       ///< each lateral axis reversed with probability 1/2
  bool polarity = false;  ///< sign reversed with probability 1/2
  double gain = 0.2;      ///< amplitudes times a number from [1 - gain, 1 + gain)
  double noise = 0.0;     ///< noise of standard deviation [0, noise) of the normalised samples
};

struct SampledVolume {
  std::shared_ptr<const Volume> volume;
  double weight =
      0;  ///< share of the samples among the volumes; 0 for all volumes: by their number of windows
  std::vector<int64_t> window = {};  ///< of this volume; empty: that of the settings
};

/// All of it is part of the recipe: two jobs with the same settings and seed see the same samples.
struct SamplerSettings {
  std::vector<int64_t> window;  ///< 2D [traces, samples] or 3D [inline, crossline, samples]
  std::vector<int64_t>
      stride;  ///< distance of neighbouring windows per window axis; empty: half a window
  std::string sections = "both";  ///< 2D windows of a 3D volume: "inline", "crossline" or "both"
  uint64_t seed = 0;
  double validation_fraction = 0.1;  ///< of each volume, at least a window; 0: no validation
  int64_t validation_count = 32;     ///< validation windows over all volumes; fewer when fewer fit
  double dead_fraction_limit = 0.5;  ///< windows with a larger share of dead traces are not used
  double clip_deviations = 5;        ///< normalised samples are clamped to +- this; 0: no clamp
  uint64_t working_set_bytes =
      512u << 20;  ///< decoded chunks (float) between which samples are shuffled
  Augmentation augmentation;
  /// > 1: a sample number n means part n mod `parts` of sample n / `parts`, a slab of its first
  /// axis that is cut at multiples of `grain`.
  int64_t parts = 1, grain = 1;
  int64_t tile_rows = 0;  ///< > 0: windows are read so many rows of their first axis at a time
};

/// Where one sample comes from and what is done to it.
struct WindowSpec {
  int64_t sample_number = 0;
  int32_t volume = 0;           ///< index into the sampler's volumes
  int64_t pass = 0;             ///< how often this volume was used up before
  std::vector<int64_t> origin;  ///< first sample, one per volume axis
  std::vector<int64_t> shape;   ///< samples per volume axis; 1 across a section
  std::vector<int32_t> axes;    ///< window axis k runs along volume axis axes[k]
  uint32_t flips = 0;           ///< bit k: window axis k is reversed
  float gain = 1;               ///< negative: polarity reversed
  float noise = 0;              ///< standard deviation of the added noise
  uint64_t noise_seed = 0;
  int64_t first_row = 0;       ///< of a slab: where on window axis 0 it begins
  uint64_t first_element = 0;  ///< of a slab: its first sample's number in the window before flips
  bool operator==(const WindowSpec&) const = default;

  /// Samples per window axis, and of the whole window.
  std::vector<int64_t> window_shape() const;
  int64_t elements() const;
  /// The part [first, first + count) of window axis 0, as it would be cut out of the window.
  WindowSpec slab(int64_t first, int64_t count) const;
};

/// Part `part` of `parts` of an axis of `extent` samples, cut at multiples of `grain`.
struct AxisPart {
  int64_t first = 0, count = 0;
};
AxisPart axis_part(int64_t extent, int64_t grain, int64_t parts, int64_t part);

/// Sample number -> window, by arithmetic: whoever asks, in any order, on any thread, gets the same
/// answer; nothing is remembered.
///
/// Space: each volume gives slabs along one axis to validation, the rest to training; no window
/// crosses the border. The training part is cut into blocks of whole chunks (two cuts, displaced by
/// half a block, take turns from pass to pass), and windows lie inside one block. A block has a
/// grid of cells, one per `stride`; each pass uses each cell once, with an origin drawn inside the
/// cell. Order: blocks are shuffled; a few neighbours in that order form a group that fits the
/// working set; the windows of a group are shuffled by a keyed permutation. So a chunk is needed
/// during one group of a pass and can be dropped afterwards. Volumes take turns sample by sample in
/// the proportion of their weights.
class WindowSampler {
 public:
  /// Reads live masks, and chunks of volumes that have no statistics. Error when a window is larger
  /// than a volume, a setting is impossible, or a volume holds nothing but dead traces; it names
  /// volume, window, shape and what to change.
  WindowSampler(std::vector<SampledVolume> volumes, SamplerSettings settings);
  ~WindowSampler();
  WindowSampler(const WindowSampler&) = delete;
  WindowSampler& operator=(const WindowSampler&) = delete;

  const SamplerSettings& settings() const { return settings_; }
  int32_t volume_count() const { return static_cast<int32_t>(volumes_.size()); }
  const Volume& volume(int32_t index) const { return *volumes_[static_cast<size_t>(index)].volume; }
  const Normalisation& normalisation(int32_t index) const;

  /// Samples that are read at once, of the largest window of all volumes: all, a part or a tile.
  int64_t largest_window() const;

  /// Any sample number from 0 up; thread-safe.
  WindowSpec locate(int64_t sample_number) const;
  /// The whole window of a sample, whatever `parts` is.
  WindowSpec locate_whole(int64_t sample_number) const;
  /// Part `part` of a whole window.
  WindowSpec part_of(const WindowSpec& whole, int64_t part) const;

  /// Windows of one volume in pass `pass`.
  int64_t windows_per_pass(int32_t volume, int64_t pass) const;
  /// Samples after which every volume has been used about once.
  int64_t windows() const;

  /// Fixed windows of the validation part, without augmentation: the same for every seed. 0 <=
  /// index < validation_size().
  int64_t validation_size() const;
  WindowSpec locate_validation(int64_t index) const;

  /// Share of samples that come from `volume`, after rounding to 1/4096.
  double share(int32_t volume) const { return turns_.share(volume); }

  /// One line for the log: volumes, windows, split.
  std::string describe() const;

 private:
  struct Plan;  // of one volume
  const std::vector<int64_t>& window_of(const SampledVolume& v) const {
    return v.window.empty() ? settings_.window : v.window;
  }
  void check_volumes() const;
  std::unique_ptr<const Plan> make_plan(size_t number) const;
  void choose_validation();
  void place(std::span<const int64_t> begin, std::span<const int64_t> size, const DeadMap& dead,
             WindowSpec& w) const;
  void augment(WindowSpec& w) const;

  std::vector<SampledVolume> volumes_;
  SamplerSettings settings_;
  std::vector<std::unique_ptr<const Plan>> plans_;
  Turns turns_;
  std::vector<WindowSpec> validation_;
};

}  // namespace craton::volume
