#include "craton/volume/segy/trace_table.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "craton/runtime/thread_pool.h"

namespace craton::volume::segy {

namespace {

constexpr int64_t kRowsPerTask = 8192;
constexpr uint64_t kBlockBytes = 4 << 20;
/// Traces up to this size are read whole, in blocks; of longer ones only the headers.
constexpr uint64_t kWholeTraceBytes = 4096;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct Counters {
  std::atomic<int64_t> dead_with_data{0}, odd_scalars{0}, missing_coordinates{0};
  std::atomic<bool> zero_scalar{false}, any_cdp{false}, any_source{false};
};

void check_field(const SourceFile& file, const HeaderField& field, std::string_view option) {
  const auto end = static_cast<uint64_t>(field.byte - 1 + field_bytes(field.type));
  if (end > file.facts.header_bytes) {
    fail(ErrorCode::kInvalidArgument,
         "--{} {} reaches byte {}, past the trace header of {} ({} bytes)", option,
         to_string(field), end, file.facts.name, file.facts.header_bytes);
  }
}

bool all_zero(const SourceFile& file, int64_t trace) {
  std::vector<std::byte> raw(static_cast<size_t>(file.facts.trace_samples(trace)) *
                             static_cast<size_t>(sample_bytes(file.facts.format)));
  file.source->read(file.facts.trace_offset(trace) + file.facts.header_bytes, raw);
  return std::all_of(raw.begin(), raw.end(), [](std::byte b) { return b == std::byte{0}; });
}

struct Place {
  double x = kNaN, y = kNaN;
};

/// A pair of coordinates; NaN for the two ways of saying "none": the smallest int32, and both zero.
Place read_place(std::span<const std::byte> header, const HeaderField& x, const HeaderField& y,
                 ByteOrder order, double factor, Counters& counters) {
  Place place{read_field(header, x, order), read_field(header, y, order)};
  constexpr double kNone = std::numeric_limits<int32_t>::min();
  if (place.x == kNone || place.y == kNone) {
    counters.missing_coordinates.fetch_add(1, std::memory_order_relaxed);
    return {};
  }
  if (place.x == 0 && place.y == 0) return {};
  const bool integers =
      x.type != FieldType::kFloat32 && x.type != FieldType::kFloat64 && x.type != FieldType::kIbm32;
  if (integers) {
    place.x = factor >= 1 ? place.x * factor : place.x / std::round(1 / factor);
    place.y = factor >= 1 ? place.y * factor : place.y / std::round(1 / factor);
  }
  return place;
}

class Scanner {
 public:
  Scanner(std::span<const SourceFile> files, const FieldChoice& fields, TraceTable& table)
      : files_(files), fields_(fields), table_(table) {
    const auto rows = static_cast<size_t>(table.first_of_file.back());
    for (auto* column : {&table.inline_number, &table.crossline_number, &table.cdp, &table.offset,
                         &table.x, &table.y}) {
      column->resize(rows);
    }
    table.delay_ms.resize(rows);
    table.dead.resize(rows);
    if (!fields.x_field) source_places_.resize(rows);
  }

  void scan(size_t file_number, int64_t begin, int64_t end) {
    const SourceFile& file = files_[file_number];
    const int64_t first = table_.first_of_file[file_number];
    for_each_header(file, begin, end, [&](int64_t trace, std::span<const std::byte> header) {
      row(file, trace, static_cast<size_t>(first + trace), header);
    });
  }

  void finish() {
    table_.dead_with_data = counters_.dead_with_data;
    table_.odd_scalars = counters_.odd_scalars;
    table_.zero_scalar = counters_.zero_scalar;
    table_.missing_coordinates = counters_.missing_coordinates;
    if (!counters_.any_cdp && counters_.any_source) {
      table_.coordinates_from_source = true;
      for (size_t i = 0; i < source_places_.size(); ++i) {
        table_.x[i] = source_places_[i].x;
        table_.y[i] = source_places_[i].y;
      }
    } else if (!counters_.any_cdp) {
      table_.x.clear();
      table_.y.clear();
    }
  }

 private:
  void row(const SourceFile& file, int64_t trace, size_t row, std::span<const std::byte> header) {
    const ByteOrder order = file.facts.order;
    table_.inline_number[row] = read_field(header, fields_.inline_field, order);
    table_.crossline_number[row] = read_field(header, fields_.crossline_field, order);
    table_.cdp[row] = read_field(header, fields_.cdp_field, order);
    table_.offset[row] = read_field(header, fields_.offset_field, order);
    const double time_factor = scalar_factor(load_at<int16_t>(header, 215, order)).value_or(1.0);
    const double delay = load_at<int16_t>(header, 109, order);
    table_.delay_ms[row] = static_cast<float>(
        time_factor >= 1 ? delay * time_factor : delay / std::round(1 / time_factor));
    if (load_at<int16_t>(header, 29, order) == 2) {
      table_.dead[row] = all_zero(file, trace) ? 1 : 0;
      if (table_.dead[row] == 0) ++counters_.dead_with_data;
    }
    coordinates(header, row, order);
  }

  void coordinates(std::span<const std::byte> header, size_t row, ByteOrder order) {
    const auto scalar = load_at<int16_t>(header, 71, order);
    const auto factor = scalar_factor(scalar);
    if (!factor) counters_.odd_scalars.fetch_add(1, std::memory_order_relaxed);
    if (scalar == 0 && !counters_.zero_scalar.load(std::memory_order_relaxed))
      counters_.zero_scalar = true;
    const HeaderField x = fields_.x_field.value_or(HeaderField{181, FieldType::kInt32});
    const HeaderField y = fields_.y_field.value_or(HeaderField{185, FieldType::kInt32});
    const Place place = read_place(header, x, y, order, factor.value_or(1.0), counters_);
    table_.x[row] = place.x;
    table_.y[row] = place.y;
    if (!std::isnan(place.x) && !counters_.any_cdp.load(std::memory_order_relaxed))
      counters_.any_cdp = true;
    if (source_places_.empty()) return;
    source_places_[row] = read_place(header, {73, FieldType::kInt32}, {77, FieldType::kInt32},
                                     order, factor.value_or(1.0), source_counters_);
    if (!std::isnan(source_places_[row].x) &&
        !counters_.any_source.load(std::memory_order_relaxed)) {
      counters_.any_source = true;
    }
  }

  std::span<const SourceFile> files_;
  const FieldChoice& fields_;
  TraceTable& table_;
  std::vector<Place> source_places_;
  Counters counters_, source_counters_;
};

}  // namespace

std::optional<double> scalar_factor(int16_t scalar) {
  switch (scalar) {
    case 0:
    case 1:
    case -1:
      return 1.0;
    case 10:
    case 100:
    case 1000:
    case 10000:
      return static_cast<double>(scalar);
    case -10:
    case -100:
    case -1000:
    case -10000:
      return -1.0 / static_cast<double>(scalar);
    default:
      return std::nullopt;
  }
}

std::pair<size_t, int64_t> TraceTable::locate(int64_t row) const {
  const auto after = std::upper_bound(first_of_file.begin(), first_of_file.end(), row);
  const auto file = static_cast<size_t>(after - first_of_file.begin()) - 1;
  return {file, row - first_of_file[file]};
}

void for_each_header(const SourceFile& file, int64_t begin, int64_t end,
                     const std::function<void(int64_t, std::span<const std::byte>)>& body) {
  const FileFacts& facts = file.facts;
  const bool whole = facts.trace_bytes > 0 && facts.trace_bytes <= kWholeTraceBytes;
  std::vector<std::byte> buffer;
  if (!whole) {
    buffer.resize(facts.header_bytes);
    for (int64_t trace = begin; trace < end; ++trace) {
      file.source->read(facts.trace_offset(trace), buffer);
      body(trace, buffer);
    }
    return;
  }
  const auto traces_per_block = static_cast<int64_t>(kBlockBytes / facts.trace_bytes);
  for (int64_t trace = begin; trace < end; trace += traces_per_block) {
    const int64_t count = std::min(traces_per_block, end - trace);
    buffer.resize(static_cast<size_t>(count) * facts.trace_bytes);
    file.source->read(facts.trace_offset(trace), buffer);
    for (int64_t i = 0; i < count; ++i) {
      body(trace + i, std::span(buffer).subspan(static_cast<size_t>(i) * facts.trace_bytes,
                                                facts.header_bytes));
    }
  }
}

TraceTable scan_traces(std::span<const SourceFile> files, const FieldChoice& fields, size_t threads,
                       const ScanProgress& progress) {
  TraceTable table;
  struct Task {
    size_t file;
    int64_t begin, end;
  };
  std::vector<Task> tasks;
  int64_t rows = 0;
  for (size_t f = 0; f < files.size(); ++f) {
    check_field(files[f], fields.inline_field, "inline");
    check_field(files[f], fields.crossline_field, "crossline");
    check_field(files[f], fields.cdp_field, "cdp");
    check_field(files[f], fields.offset_field, "offset");
    if (fields.x_field) check_field(files[f], *fields.x_field, "x");
    if (fields.y_field) check_field(files[f], *fields.y_field, "y");
    table.first_of_file.push_back(rows);
    const int64_t traces = files[f].facts.traces;
    for (int64_t begin = 0; begin < traces; begin += kRowsPerTask) {
      tasks.push_back({f, begin, std::min(begin + kRowsPerTask, traces)});
    }
    rows += traces;
  }
  table.first_of_file.push_back(rows);
  Scanner scanner(files, fields, table);
  runtime::parallel_for(tasks.size(), threads, [&](size_t i) {
    scanner.scan(tasks[i].file, tasks[i].begin, tasks[i].end);
    if (progress) progress(tasks[i].end - tasks[i].begin);
  });
  scanner.finish();
  return table;
}

}  // namespace craton::volume::segy
