#pragma once

#include <string>

#include "craton/volume/segy/trace_table.h"
#include "craton/volume/volume.h"

namespace craton::volume::segy {

/// Arrays that a store made from SEG-Y has besides MDIO's own, for the way back.
/// int64 per place: number of the trace over all files, or -1.
inline constexpr const char* kTraceIndexArray = "segy_trace_index";
/// uint64 [n, 2]: trace; sample << 32 | word.
inline constexpr const char* kIbmWordsArray = "segy_ibm_words";

/// Text, binary and extended headers and the trailer of a file, raw and readable; `more` has what
/// else an export needs.
SegyFileHeader read_file_header(const SourceFile& file);

/// SegyFileHeader::more, taken apart.
struct FileLayout {
  ByteOrder order = ByteOrder::kBig;
  int format = kIeeeFloat;
  int64_t samples = 0;
  uint64_t header_bytes = kTraceHeaderBytes;
  bool su = false;
  int64_t traces = 0;
  bool whole = true;  ///< one file, of equally long traces, no trace left out: an export can be
                      ///< byte-identical
};
std::string to_json(const FileLayout& layout);
/// Error kCorrupt for what cannot be.
FileLayout parse_file_layout(const std::string& json);

}  // namespace craton::volume::segy
