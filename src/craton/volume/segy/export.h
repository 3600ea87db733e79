#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "craton/volume/segy/ingest.h"
#include "craton/volume/volume.h"

namespace craton::volume::segy {

struct ExportOptions {
  std::optional<int>
      format;  ///< sample format code; default: the original file's, else 5 (IEEE float)
  const Volume* headers_from =
      nullptr;           ///< take headers and order of traces from this volume of the same grid
  bool replace = false;  ///< an existing file gives way once the new one is complete
  size_t threads = 0;    ///< 0: all cores
  uint64_t memory_bytes = 256u << 20;  ///< for samples in flight, all threads together
  std::function<void(const IngestProgress&)> progress;  ///< never called by two threads at once
  const std::atomic<bool>* cancel = nullptr;            ///< set: ends with Error kCancelled
};

struct ExportReport {
  int64_t traces = 0;
  int64_t made_headers = 0;  ///< traces that had no original header
  int64_t clamped = 0;       ///< samples beyond the range of the format
  uint64_t bytes = 0;
  int format = 0;
};

/// Writes a volume as SEG-Y. A volume that was made from SEG-Y with headers kept becomes the same
/// file again: text, binary and extended headers, trace headers, order of traces and trailer, and
/// for formats 1, 2, 3, 5 and 8 each sample, byte by byte (several files of a survey become one).
/// Others get a revision 1 file with headers made from the axes; dead traces are left out. The file
/// appears at `path` when it is complete; killed, cancelled or failed on the way, what is written
/// stays in PATH.partial, and the next call for the same volume and options goes on from there.
/// Error kAlreadyExists unless `replace`.
ExportReport export_segy(const Volume& volume, const std::filesystem::path& path,
                         const ExportOptions& options);

}  // namespace craton::volume::segy
