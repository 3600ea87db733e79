#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "craton/base/error.h"
#include "craton/volume/segy/byte_source.h"
#include "craton/volume/segy/bytes.h"
#include "craton/volume/segy/header_field.h"
#include "craton/volume/segy/sample_format.h"
#include "craton/volume/segy/text_header.h"

namespace craton::volume::segy {

inline constexpr uint64_t kTextHeaderBytes = 3200, kFileHeaderBytes = 3600;

/// What the user knows better than the file. An empty option is found out from the file.
struct ReadOptions {
  std::optional<ByteOrder> order;       ///< --endian
  std::optional<int> format;            ///< --format
  std::optional<int64_t> samples;       ///< --samples, per trace
  std::optional<double> interval_us;    ///< --interval
  std::optional<int> extended_headers;  ///< --extended-headers
  std::optional<uint64_t> first_trace;  ///< --first-trace, byte offset
  bool su = false;       ///< --su: a Seismic Unix file, that is traces without file headers
  bool lenient = false;  ///< --lenient: drop what does not fill a whole trace
};

/// Something that a careful reader would want to know, with the option that settles it (may be
/// empty).
struct Remark {
  std::string text;
  std::string option;
};

/// What a SEG-Y file is, as far as its headers and its size tell. Nothing here depends on the
/// samples.
struct FileFacts {
  std::string name;
  uint64_t file_bytes = 0;
  bool su = false;
  ByteOrder order = ByteOrder::kBig;
  TextEncoding text_encoding = TextEncoding::kEbcdic;
  int revision_major = 0, revision_minor = 0;
  int format = 0;
  int64_t samples = 0;     ///< of the longest trace
  double interval_us = 0;  ///< 0: no header says it
  bool feet = false;       ///< measurement system (bytes 3255-56): feet
  int extended_headers = 0;
  int extra_trace_headers = 0;
  uint64_t first_trace = kFileHeaderBytes;    ///< offset of the first trace
  uint64_t header_bytes = kTraceHeaderBytes;  ///< of one trace, with extensions
  uint64_t trace_bytes = 0;  ///< header and samples of one trace; 0 when the lengths vary
  int64_t traces = 0;
  uint64_t end_of_traces = 0;  ///< offset behind the last trace
  std::vector<uint64_t>
      variable_offsets;  ///< offset of each trace when their lengths vary, and the end
  std::vector<Remark> remarks;

  /// Why the file cannot be read as it is, in one line that names what was found, what was expected
  /// and the option that helps. Empty: it can.
  std::string problem;
  ErrorCode problem_code = ErrorCode::kCorrupt;

  uint64_t trace_offset(int64_t trace) const {
    return variable_offsets.empty() ? first_trace + static_cast<uint64_t>(trace) * trace_bytes
                                    : variable_offsets[static_cast<size_t>(trace)];
  }
  /// Samples that this trace has in the file; at most `samples`.
  int64_t trace_samples(int64_t trace) const;
};

/// Looks at headers and size. Never throws for what is in the file (see FileFacts::problem); an
/// Error only when reading itself fails. Reads at most the file header, the extended headers and a
/// few trace headers (all of them when the lengths vary).
FileFacts inspect(const ByteSource& source, const ReadOptions& options = {});

/// Throws FileFacts::problem as an Error if there is one.
void require_readable(const FileFacts& facts);

/// What a look at some traces says about the samples.
struct SampleProbe {
  int64_t traces = 0;  ///< looked at
  int64_t count = 0;   ///< nonzero, finite samples
  int64_t not_finite = 0;
  double min = 0, max = 0, mean = 0, standard_deviation = 0;
  LeadingDigits digits;     ///< for 4-byte formats
  bool looks_ieee = false;  ///< labelled IBM, but the words are none
  bool looks_ibm = false;   ///< labelled IEEE, but the words may be IBM
};

/// Decodes up to `max_traces` traces spread evenly over a readable file.
SampleProbe probe_samples(const ByteSource& source, const FileFacts& facts,
                          int64_t max_traces = 256);

}  // namespace craton::volume::segy
