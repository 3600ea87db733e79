#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "craton/volume/segy/geometry.h"
#include "craton/volume/volume.h"

namespace craton::volume::segy {

struct IngestProgress {
  const char* stage = "";                    ///< "headers" or "samples"
  uint64_t bytes_done = 0, bytes_total = 0;  ///< of the files, in this stage
};

struct IngestOptions {
  ReadOptions read;
  FieldChoice fields;
  GeometryOptions geometry;
  std::vector<int64_t>
      chunk_shape;  ///< empty: default_chunk_shape, and 16 x 16 x 32 x 128 for prestack
  std::string compressor = "zstd";
  int compression_level = 3;
  int zarr_format = 3;                 ///< or 2
  std::vector<int64_t> shard_shape;    ///< empty: no shards
  double zfp_tolerance = 0;            ///< above 0: lossy
  bool keep_headers = true;            ///< trace and file headers, for the way back to SEG-Y
  bool replace = false;                ///< an existing store gives way once the new one is complete
  size_t threads = 0;                  ///< 0: all cores
  uint64_t memory_bytes = 256u << 20;  ///< for samples in flight, all threads together
  std::function<void(const IngestProgress&)>
      progress;                               ///< called now and then, never by two threads at once
  const std::atomic<bool>* cancel = nullptr;  ///< set: ends with Error kCancelled
};

struct IngestReport {
  std::vector<FileFacts> files;
  Geometry geometry;
  std::vector<Remark> remarks;  ///< of files and geometry
  int64_t ibm_overflow = 0;     ///< IBM words beyond the floats, stored as infinity
  int64_t ibm_kept_words =
      0;  ///< IBM words that a float does not give back, kept beside the samples
  uint64_t bytes_read = 0;
};

/// Where the volume goes; `create_volume` in life, something in memory in tests. `source` is one
/// line that stands for the files and for how they are read (WriteOptions::resume_key).
using WriterFactory =
    std::function<std::unique_ptr<VolumeWriter>(const VolumeSpec&, const std::string& source)>;

/// SEG-Y files (one, or several of one survey) into one volume. Two passes: all headers, then the
/// samples, chunk column by chunk column, in any order that the file has. Memory: `memory_bytes`,
/// some 60 bytes per trace, and what the writer needs. Nothing is visible at the destination until
/// all is written. Killed, cancelled or failed after the first chunk column, it leaves URI.partial,
/// and the next call with the same files and options goes on from there (on file systems). Errors
/// name the file, what was found and the option that helps.
IngestReport ingest(std::span<const std::filesystem::path> files, const std::string& uri,
                    const IngestOptions& options);
IngestReport ingest(std::vector<SourceFile> files, const WriterFactory& make_writer,
                    const IngestOptions& options);

/// Opens and inspects; throws for a file that cannot be read.
std::vector<SourceFile> open_sources(std::span<const std::filesystem::path> files,
                                     const ReadOptions& options);

}  // namespace craton::volume::segy
