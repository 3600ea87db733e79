#pragma once

#include <optional>
#include <string>
#include <vector>

#include "craton/volume/segy/export.h"
#include "craton/volume/segy/file_header.h"
#include "craton/volume/segy/tile_reader.h"

namespace craton::volume::segy {

/// What an exported file will be: decided before anything is written.
struct ExportPlan {
  FileLayout layout;
  std::vector<std::byte> before_traces, after_traces;
  std::vector<int64_t> place_of_cell;  ///< number of the trace in the new file, or -1
  std::vector<int64_t>
      origin_of_cell;  ///< number of the trace in the original, or -1: its header is made
  const Volume* headers = nullptr;   ///< where raw headers come from; nullptr: none
  std::vector<KeptWord> kept_words;  ///< sorted; empty when the samples are not the original's
  std::vector<double> x, y;          ///< per cell, or empty
  double start = 0, step = 0;        ///< of the sample axis, ms
  int64_t traces = 0;
  uint64_t trace_bytes() const {
    return layout.header_bytes + static_cast<uint64_t>(layout.samples) *
                                     static_cast<uint64_t>(sample_bytes(layout.format));
  }
  uint64_t offset(int64_t place) const {
    return before_traces.size() + static_cast<uint64_t>(place) * trace_bytes();
  }
  /// One line that stands for every byte of the new file.
  std::string source_key(const Volume& volume) const;
};

ExportPlan plan_export(const Volume& volume, const ExportOptions& options);

/// A revision 1 trace header (plan.layout.header_bytes) for a cell that never had one.
std::vector<std::byte> make_trace_header(const Volume& volume, const ExportPlan& plan,
                                         int64_t cell);

}  // namespace craton::volume::segy
