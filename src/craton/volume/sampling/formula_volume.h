#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "craton/volume/volume.h"

namespace craton::volume {

/// A volume whose samples are a formula of their coordinates: for tests and measurements of what
/// reads volumes. Counts chunk reads.
class FormulaVolume : public Volume {
 public:
  using Formula = std::function<float(std::span<const int64_t>)>;

  FormulaVolume(std::vector<int64_t> shape, std::vector<int64_t> chunk_shape, Formula formula,
                std::string name = "formula")
      : formula_(std::move(formula)) {
    info_.uri = "memory://" + name;
    info_.name = std::move(name);
    info_.chunk_shape = std::move(chunk_shape);
    int64_t traces = 1;
    for (size_t d = 0; d < shape.size(); ++d) {
      Axis axis{d + 1 == shape.size() ? "time"
                : shape.size() == 2   ? "cdp"
                : d == 0              ? "inline"
                                      : "crossline",
                "",
                {}};
      for (int64_t k = 0; k < shape[d]; ++k) axis.coordinates.push_back(static_cast<double>(k));
      info_.axes.push_back(std::move(axis));
      if (d + 1 < shape.size()) traces *= shape[d];
    }
    live_.assign(static_cast<size_t>(traces), 1);
    info_.statistics.count = 1000;  // mean 0, deviation 1: samples pass the normalisation unchanged
    info_.statistics.sum_squares = 1000;
  }

  VolumeInfo& editable_info() { return info_; }
  std::vector<uint8_t>& editable_live() { return live_; }
  /// Reads of this chunk fail from now on.
  void break_chunk(std::vector<int64_t> chunk) { broken_.insert(std::move(chunk)); }
  int64_t chunk_reads() const { return reads_; }
  std::set<std::vector<int64_t>> chunks_touched() const {
    const std::lock_guard lock(mutex_);
    return touched_;
  }

  const VolumeInfo& info() const override { return info_; }
  const std::vector<uint8_t>& live() const override { return live_; }
  void read(std::span<const int64_t> origin, std::span<const int64_t> shape,
            std::span<float> out) const override;
  void read_chunk(std::span<const int64_t> chunk, std::span<float> out) const override;

 private:
  VolumeInfo info_;
  std::vector<uint8_t> live_;
  Formula formula_;
  std::set<std::vector<int64_t>> broken_;
  mutable std::atomic<int64_t> reads_{0};
  mutable std::mutex mutex_;
  mutable std::set<std::vector<int64_t>> touched_;
};

}  // namespace craton::volume
