#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "craton/volume/segy/file_facts.h"

namespace craton::volume::segy {

/// One SEG-Y file of a survey, open for reading.
struct SourceFile {
  std::shared_ptr<const ByteSource> source;
  FileFacts facts;
};

/// Where the numbers of a trace lie. Defaults are the standard's places.
struct FieldChoice {
  HeaderField inline_field{189, FieldType::kInt32};
  HeaderField crossline_field{193, FieldType::kInt32};
  HeaderField cdp_field{21, FieldType::kInt32};
  HeaderField offset_field{37, FieldType::kInt32};
  std::optional<HeaderField> x_field, y_field;  ///< default: bytes 181 and 185, else 73 and 77
};

/// What geometry needs of each trace, over all files in order. Columns have one entry per trace.
struct TraceTable {
  std::vector<double> inline_number, crossline_number, cdp, offset;
  std::vector<double> x,
      y;  ///< scaled; NaN where the header holds no coordinate; empty when no trace has one
  std::vector<float> delay_ms;  ///< scaled delay recording time
  std::vector<uint8_t> dead;    ///< trace id code 2 and nothing but zeros
  std::vector<int64_t>
      first_of_file;  ///< row of the first trace of each file, and the number of rows

  int64_t dead_with_data = 0;  ///< id code 2, but samples are not zero: read as live
  int64_t odd_scalars = 0;  ///< coordinate scalars other than 0, 1, 10, 100, 1000, 10000 and their
                            ///< negatives: read as 1
  int64_t missing_coordinates = 0;       ///< smallest int32 in x or y
  bool coordinates_from_source = false;  ///< bytes 73 and 77, as 181 and 185 are zero
  bool zero_scalar = false;              ///< some coordinate scalar is 0

  int64_t size() const { return static_cast<int64_t>(inline_number.size()); }
  /// The file that holds a row, and the trace's number in it.
  std::pair<size_t, int64_t> locate(int64_t row) const;
};

/// A number that counts as many traces as were read since the last call, from any thread.
using ScanProgress = std::function<void(int64_t traces)>;

/// Reads all trace headers, on `threads` threads. kInvalidArgument when a field lies outside of the
/// trace header.
TraceTable scan_traces(std::span<const SourceFile> files, const FieldChoice& fields, size_t threads,
                       const ScanProgress& progress = {});

/// The header of each trace from `begin` to `end` of a file, in order: body(trace, header bytes).
/// Reads in blocks of bounded size.
void for_each_header(const SourceFile& file, int64_t begin, int64_t end,
                     const std::function<void(int64_t, std::span<const std::byte>)>& body);

/// The factor that a coordinate or time scalar means: negative divides, positive multiplies, 0 is
/// 1; nullopt for a value that is none.
std::optional<double> scalar_factor(int16_t scalar);

}  // namespace craton::volume::segy
