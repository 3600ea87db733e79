#include "craton/volume/segy/ingest.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>

#include "craton/base/sha256.h"
#include "craton/runtime/thread_pool.h"
#include "craton/volume/segy/file_header.h"
#include "craton/volume/segy/tile_reader.h"

namespace craton::volume::segy {

namespace {

std::vector<int64_t> pick_chunk_shape(const Geometry& geometry, const IngestOptions& options) {
  std::vector<int64_t> shape;
  for (const Axis& axis : geometry.axes) shape.push_back(axis.size());
  std::vector<int64_t> chunk = options.chunk_shape;
  if (chunk.empty()) {
    if (shape.size() < 4) return default_chunk_shape(shape);
    chunk = {16, 16, 32, 128};
  }
  if (chunk.size() != shape.size()) {
    fail(ErrorCode::kInvalidArgument, "the chunk shape has {} numbers, the volume {} axes",
         chunk.size(), shape.size());
  }
  for (size_t i = 0; i < chunk.size(); ++i) {
    if (chunk[i] < 1 || chunk[i] > 4096) {
      fail(ErrorCode::kInvalidArgument, "chunk size {} is out of range; expected 1..4096",
           chunk[i]);
    }
    chunk[i] = std::min(chunk[i], shape[i]);
  }
  return chunk;
}

std::vector<double> per_cell(const Geometry& geometry, const std::vector<double>& column) {
  std::vector<double> out;
  if (column.empty()) return out;
  out.resize(geometry.trace_of_cell.size(), std::numeric_limits<double>::quiet_NaN());
  for (size_t cell = 0; cell < out.size(); ++cell) {
    const int64_t row = geometry.trace_of_cell[cell];
    if (row >= 0) out[cell] = column[static_cast<size_t>(row)];
  }
  return out;
}

/// Coordinates that are the same for many traces are something else (shop-specific words, as in old
/// land lines).
bool coordinates_are_plausible(const TraceTable& table) {
  double first_x = 0, first_y = 0;
  int64_t known = 0;
  for (size_t i = 0; i < table.x.size(); ++i) {
    if (std::isnan(table.x[i])) continue;
    if (known++ == 0) {
      first_x = table.x[i];
      first_y = table.y[i];
    } else if (table.x[i] != first_x || table.y[i] != first_y) {
      return true;
    }
  }
  return known == 1;
}

/// Forwards progress from many threads, some ten times a second.
class ProgressMeter {
 public:
  ProgressMeter(const IngestOptions& options) : options_(options) {}
  void start(const char* stage, uint64_t total) {
    const std::lock_guard lock(mutex_);
    now_ = {stage, 0, total};
    if (options_.progress) options_.progress(now_);
  }
  void add(uint64_t bytes) {
    if (options_.cancel != nullptr && options_.cancel->load())
      fail(ErrorCode::kCancelled, "interrupted");
    const std::lock_guard lock(mutex_);
    now_.bytes_done += bytes;
    const auto time = std::chrono::steady_clock::now();
    if (!options_.progress ||
        (time - last_ < std::chrono::milliseconds(100) && now_.bytes_done < now_.bytes_total))
      return;
    last_ = time;
    options_.progress(now_);
  }

 private:
  const IngestOptions& options_;
  std::mutex mutex_;
  IngestProgress now_;
  std::chrono::steady_clock::time_point last_;
};

uint64_t total_bytes(std::span<const SourceFile> files) {
  uint64_t bytes = 0;
  for (const SourceFile& file : files) bytes += file.facts.end_of_traces - file.facts.first_trace;
  return bytes;
}

/// IBM data that are none would become plausible nonsense: the user has to say which it is.
void check_mislabel(const SourceFile& file, const IngestOptions& options,
                    std::vector<Remark>& remarks) {
  if (options.read.format || sample_bytes(file.facts.format) != 4) return;
  const SampleProbe probe = probe_samples(*file.source, file.facts, 64);
  if (probe.looks_ieee) {
    fail(ErrorCode::kInvalidArgument,
         "{}: the format code says IBM float, but {:.1f} % of the words are not normalised (IBM "
         "data have none): probably IEEE; use "
         "--format 5, or --format 1 to insist",
         file.facts.name, 100 * probe.digits.share());
  }
  if (probe.looks_ibm) {
    remarks.push_back(
        {"the format code says IEEE float, but all words would be normalised IBM floats",
         "--format 1"});
  }
}

/// Stands for what the samples come from: the files as they are now, and where each trace goes.
std::string source_key(std::span<const SourceFile> files, const TraceTable& table,
                       const Geometry& geometry) {
  Sha256 digest;
  const auto add = [&](const std::string& text) {
    digest.update(std::as_bytes(std::span(text)));
    digest.update(std::as_bytes(std::span("\n", 1)));
  };
  add("ingest 1");
  for (const SourceFile& file : files) {
    const FileFacts& f = file.facts;
    add(fmt::format("{} {} {} {} {} {} {} {}", file.source->identity(), f.file_bytes, f.format,
                    static_cast<int>(f.order), f.samples, f.first_trace, f.trace_bytes, f.traces));
  }
  const auto add_all = [&](const auto& column) { digest.update(std::as_bytes(std::span(column))); };
  add_all(geometry.trace_of_cell);
  add_all(geometry.shift);
  add_all(table.dead);
  return digest.hex_digest();
}

class Ingestion {
 public:
  Ingestion(std::vector<SourceFile> files, const WriterFactory& make_writer,
            const IngestOptions& options)
      : files_(std::move(files)), options_(options), meter_(options) {
    threads_ = options.threads > 0 ? options.threads : runtime::available_cores();
    plan();
    writer_ = make_writer(spec_, source_key(files_, table_, report_.geometry));
  }

  IngestReport run() {
    write_tiles();
    write_headers();
    report_.bytes_read = total_bytes(files_);
    if (options_.cancel != nullptr && options_.cancel->load())
      fail(ErrorCode::kCancelled, "interrupted");
    writer_->finish();
    return std::move(report_);
  }

 private:
  void plan() {
    for (const SourceFile& file : files_) {
      require_readable(file.facts);
      for (const Remark& remark : file.facts.remarks) add_remark(remark);
      std::vector<Remark> mislabel;
      check_mislabel(file, options_, mislabel);
      for (const Remark& remark : mislabel) add_remark(remark);
    }
    const Sampling sampling = common_sampling(files_);
    meter_.start("headers", total_bytes(files_));
    table_ = scan_traces(files_, options_.fields, threads_, [&](int64_t traces) {
      meter_.add(static_cast<uint64_t>(traces) * files_.front().facts.trace_bytes);
    });
    try {
      report_.geometry = plan_geometry(table_, options_.fields, sampling, options_.geometry);
    } catch (const Error& e) {
      fail(e.code(), "{}{}: {}", files_.front().facts.name,
           files_.size() > 1 ? fmt::format(" and {} more", files_.size() - 1) : "", e.message());
    }
    for (const Remark& remark : report_.geometry.remarks) add_remark(remark);
    make_spec();
    for (SourceFile& file : files_) report_.files.push_back(file.facts);
  }

  void add_remark(const Remark& remark) {
    for (const Remark& known : report_.remarks) {
      if (known.text == remark.text) return;
    }
    report_.remarks.push_back(remark);
  }

  void make_spec() {
    const Geometry& geometry = report_.geometry;
    spec_.name = geometry.template_name;
    spec_.survey_type = geometry.survey_type;
    spec_.axes = geometry.axes;
    spec_.chunk_shape = pick_chunk_shape(geometry, options_);
    spec_.compressor = options_.compressor;
    spec_.compression_level = options_.compression_level;
    spec_.zarr_format = options_.zarr_format;
    spec_.shard_shape = options_.shard_shape;
    spec_.zfp_tolerance = options_.zfp_tolerance;
    if (coordinates_are_plausible(table_)) {
      spec_.cdp_x = per_cell(geometry, table_.x);
      spec_.cdp_y = per_cell(geometry, table_.y);
    } else if (!table_.x.empty()) {
      add_remark({"all traces have the same coordinates: taken for something else and left out",
                  "--x, --y"});
    }
    const bool integers = std::all_of(files_.begin(), files_.end(), [](const SourceFile& file) {
      return file.facts.format == kInt32;
    });
    if (integers) spec_.sample_type = "int32";
    if (options_.keep_headers) spec_.trace_header_bytes = static_cast<int64_t>(longest_header());
    spec_.little_endian_headers = files_.front().facts.order == ByteOrder::kLittle;
  }

  uint64_t longest_header() const {
    uint64_t bytes = kTraceHeaderBytes;
    for (const SourceFile& file : files_) bytes = std::max(bytes, file.facts.header_bytes);
    return bytes;
  }

  void write_tiles() {
    meter_.start("samples", total_bytes(files_));
    TileReader reader(files_, table_, report_.geometry, spec_, options_.memory_bytes / threads_);
    runtime::parallel_for(static_cast<size_t>(reader.tiles()), threads_, [&](size_t tile) {
      reader.copy(static_cast<int64_t>(tile), *writer_, [&](uint64_t bytes) { meter_.add(bytes); });
    });
    report_.ibm_overflow = reader.ibm_overflow();
    kept_words_ = reader.take_kept_words();
    report_.ibm_kept_words = static_cast<int64_t>(kept_words_.size());
    if (report_.ibm_overflow > 0) {
      add_remark({fmt::format("{} IBM samples are beyond the range of float and stored as infinity",
                              report_.ibm_overflow),
                  ""});
    }
    if (report_.ibm_kept_words > 0) {
      add_remark({fmt::format("{} IBM words are not what a float gives back; they are kept beside "
                              "the samples, for an export",
                              report_.ibm_kept_words),
                  ""});
    }
    if (const int64_t lost = reader.odd_words() - report_.ibm_kept_words; lost > 0) {
      add_remark({fmt::format("{} IBM words that floats do not give back are too many to keep; an "
                              "export will write their values normalised",
                              lost),
                  ""});
    }
  }

  void write_headers() {
    if (!options_.keep_headers) return;
    writer_->set_segy_file_header(read_file_header(files_.front()));
    const auto& cells = report_.geometry.trace_of_cell;
    NamedArray index{"int64", {}, {}};
    for (size_t i = 0; i + 1 < spec_.axes.size(); ++i) index.shape.push_back(spec_.axes[i].size());
    index.bytes.resize(8 * cells.size());
    std::memcpy(index.bytes.data(), cells.data(), index.bytes.size());
    writer_->write_array(kTraceIndexArray, index);
    if (!kept_words_.empty()) {
      NamedArray words{"uint64", {static_cast<int64_t>(kept_words_.size()), 2}, {}};
      words.bytes.resize(16 * kept_words_.size());
      std::memcpy(words.bytes.data(), kept_words_.data(), words.bytes.size());
      writer_->write_array(kIbmWordsArray, words);
    }
  }

  std::vector<SourceFile> files_;
  const IngestOptions& options_;
  ProgressMeter meter_;
  size_t threads_ = 1;
  TraceTable table_;
  VolumeSpec spec_;
  IngestReport report_;
  std::vector<KeptWord> kept_words_;
  std::unique_ptr<VolumeWriter> writer_;
};

}  // namespace

std::vector<SourceFile> open_sources(std::span<const std::filesystem::path> paths,
                                     const ReadOptions& options) {
  std::vector<SourceFile> files;
  for (const auto& path : paths) {
    auto source = std::make_shared<FileSource>(path);
    FileFacts facts = inspect(*source, options);
    require_readable(facts);
    files.push_back({std::move(source), std::move(facts)});
  }
  if (files.empty()) fail(ErrorCode::kInvalidArgument, "no SEG-Y file was given");
  return files;
}

IngestReport ingest(std::vector<SourceFile> files, const WriterFactory& make_writer,
                    const IngestOptions& options) {
  return Ingestion(std::move(files), make_writer, options).run();
}

namespace {

/// What an error leaves to go on from; empty: nothing.
std::filesystem::path unfinished(const std::string& uri) {
  if (uri.find("://") != std::string::npos && !uri.starts_with("file://")) return {};
  std::filesystem::path store =
      std::filesystem::absolute(uri.starts_with("file://") ? uri.substr(7) : uri)
          .lexically_normal();
  if (store.filename().empty()) store = store.parent_path();
  const std::filesystem::path partial = store.string() + ".partial";
  return std::filesystem::exists(partial) ? partial : std::filesystem::path();
}

}  // namespace

IngestReport ingest(std::span<const std::filesystem::path> files, const std::string& uri,
                    const IngestOptions& options) {
  bool begun = false;
  try {
    return ingest(
        open_sources(files, options.read),
        [&](const VolumeSpec& spec, const std::string& source) {
          auto writer = create_volume(uri, spec, WriteOptions{options.replace, source});
          begun = true;
          return writer;
        },
        options);
  } catch (const Error& e) {
    const auto partial = begun ? unfinished(uri) : std::filesystem::path();
    if (partial.empty()) throw;
    fail(e.code(), "{}; the same command goes on from what is in {}", e.what(), partial.string());
  }
}

}  // namespace craton::volume::segy
