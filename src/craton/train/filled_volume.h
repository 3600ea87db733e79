#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "craton/train/blending.h"
#include "craton/train/prediction.h"
#include "craton/train/window_source.h"

namespace craton::train {

/// The volume that a prediction makes: the input, with what a blend knows in its place. Written in
/// layers of chunks along the first axis.
class FilledVolume {
 public:
  /// Error when `options.out` is there and not to be replaced. Nothing is visible before `finish`.
  FilledVolume(WindowSource& source, const LoadedModel& model, const FillOptions& options);

  /// Writes the layers of chunks that end at or before row `end`, and drops their rows.
  void write_layers_before(int64_t end, Blend& blend);
  void finish() { writer_->finish(); }

  /// Of what has been written; windows are not counted here.
  FillReport report() const;

 private:
  struct Misfit {
    int64_t samples = 0;
    double squares = 0, truth_squares = 0;  // about the mean
  };
  void write_layer(int64_t layer, const Blend& blend);
  std::vector<uint8_t> filled_traces(int64_t layer, const Blend& blend);
  Misfit write_chunk(const Three& chunk, const Blend& blend, const std::vector<uint8_t>& filled);
  void put_predicted(const Blend::Trace& trace, int64_t first, std::span<std::byte> samples,
                     std::span<const float> truth, Misfit& misfit) const;
  void read_stored(const Three& origin, const Three& extent, std::span<std::byte> out) const;

  WindowSource& source_;
  const FillOptions& options_;
  std::string sample_type_;  // of the output
  bool same_type_ = true;    // as the input's
  size_t sample_bytes_ = 4;
  void (*store_)(float value, std::byte* to) = nullptr;
  std::unique_ptr<volume::VolumeWriter> writer_;
  int64_t next_layer_ = 0;
  FillReport report_;
  std::pair<int64_t, int64_t> best_score_{-1, 0};
  Misfit misfit_;
};

}  // namespace craton::train
