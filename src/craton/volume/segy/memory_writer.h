#pragma once

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "craton/base/check.h"
#include "craton/volume/volume.h"

namespace craton::volume::segy {

/// What a MemoryWriter was given: the whole grid, for tests.
struct MemoryGrid {
  VolumeSpec spec;
  std::vector<float> samples;     ///< C order; dead traces 0
  std::vector<int32_t> integers;  ///< instead, for sample type int32
  std::vector<uint8_t> live;
  std::vector<std::byte> headers;  ///< spec.trace_header_bytes per place
  std::map<std::string, NamedArray> arrays;
  SegyFileHeader file_header;
  bool finished = false;

  std::vector<int64_t> shape() const {
    std::vector<int64_t> out;
    for (const Axis& axis : spec.axes) out.push_back(axis.size());
    return out;
  }
};

/// A volume writer into memory, so that what ingest does can be tested without a store.
class MemoryWriter : public VolumeWriter {
 public:
  MemoryWriter(const VolumeSpec& spec, std::shared_ptr<MemoryGrid> grid) : grid_(std::move(grid)) {
    grid_->spec = spec;
    size_t traces = 1;
    for (size_t i = 0; i + 1 < spec.axes.size(); ++i)
      traces *= static_cast<size_t>(spec.axes[i].size());
    const size_t samples = traces * static_cast<size_t>(spec.axes.back().size());
    spec.sample_type == "int32" ? grid_->integers.resize(samples) : grid_->samples.resize(samples);
    grid_->live.resize(traces);
    grid_->headers.resize(traces * static_cast<size_t>(spec.trace_header_bytes));
  }

  void write_chunk(std::span<const int64_t> chunk, std::span<const float> samples,
                   std::span<const uint8_t> live) override {
    place(chunk, std::as_bytes(samples), live, reinterpret_cast<std::byte*>(grid_->samples.data()));
  }
  void write_chunk_raw(std::span<const int64_t> chunk, std::span<const std::byte> samples,
                       std::span<const uint8_t> live) override {
    CRATON_CHECK(grid_->spec.sample_type == "int32");
    place(chunk, samples, live, reinterpret_cast<std::byte*>(grid_->integers.data()));
  }
  void write_trace_headers(std::span<const int64_t> chunk,
                           std::span<const std::byte> headers) override {
    const auto cells = places(chunk);
    const auto width = static_cast<size_t>(grid_->spec.trace_header_bytes);
    CRATON_CHECK(headers.size() == cells.size() * width);
    for (size_t i = 0; i < cells.size(); ++i) {
      if (cells[i] >= 0)
        std::memcpy(grid_->headers.data() + width * cells[i], headers.data() + width * i, width);
    }
  }
  void set_segy_file_header(const SegyFileHeader& header) override { grid_->file_header = header; }
  void write_array(std::string_view name, const NamedArray& array, std::string_view) override {
    CRATON_CHECK(grid_->arrays.emplace(name, array).second);
  }
  void set_attribute(std::string_view, std::string_view) override {}
  void finish() override { grid_->finished = true; }

 private:
  /// Per trace of the chunk: its place in the grid, or -1 past the edge.
  std::vector<int64_t> places(std::span<const int64_t> chunk) const {
    const auto& spec = grid_->spec;
    const size_t dims = spec.axes.size() - 1;
    int64_t count = 1;
    for (size_t d = 0; d < dims; ++d) count *= spec.chunk_shape[d];
    std::vector<int64_t> out(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
      int64_t rest = i, stride = 1, at = 0;
      for (size_t d = dims; d-- > 0;) {
        const int64_t c = chunk[d] * spec.chunk_shape[d] + rest % spec.chunk_shape[d];
        rest /= spec.chunk_shape[d];
        at = c < spec.axes[d].size() && at >= 0 ? at + c * stride : -1;
        stride *= spec.axes[d].size();
      }
      out[static_cast<size_t>(i)] = at;
    }
    return out;
  }

  void place(std::span<const int64_t> chunk, std::span<const std::byte> samples,
             std::span<const uint8_t> live, std::byte* grid) {
    const auto& spec = grid_->spec;
    const auto cells = places(chunk);
    const int64_t depth = spec.chunk_shape.back(), all = spec.axes.back().size();
    CRATON_CHECK(samples.size() == cells.size() * static_cast<size_t>(depth) * 4);
    CRATON_CHECK(live.empty() || live.size() == cells.size());
    const int64_t begin = chunk.back() * depth, count = std::min(depth, all - begin);
    for (size_t i = 0; i < cells.size(); ++i) {
      if (cells[i] < 0) continue;
      const bool alive = live.empty() || live[i] != 0;
      grid_->live[static_cast<size_t>(cells[i])] = alive ? 1 : 0;
      if (!alive) continue;
      std::memcpy(grid + 4 * (cells[i] * all + begin),
                  samples.data() + 4 * static_cast<int64_t>(i) * depth,
                  static_cast<size_t>(4 * count));
    }
  }

  std::shared_ptr<MemoryGrid> grid_;
};

}  // namespace craton::volume::segy
