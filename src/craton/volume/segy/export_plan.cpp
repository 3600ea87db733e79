#include "craton/volume/segy/export_plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "craton/base/sha256.h"

namespace craton::volume::segy {

namespace {

template <typename T>
std::vector<T> elements(const NamedArray& array) {
  std::vector<T> out(array.bytes.size() / sizeof(T));
  if (!out.empty()) std::memcpy(out.data(), array.bytes.data(), out.size() * sizeof(T));
  return out;
}

int64_t cell_count(const Volume& volume) {
  int64_t cells = 1;
  const auto shape = volume.info().shape();
  for (size_t i = 0; i + 1 < shape.size(); ++i) cells *= shape[i];
  return cells;
}

/// Headers made from nothing but the axes.
void plan_new_file(const Volume& volume, ExportPlan& plan) {
  const Axis& axis = volume.info().axes.back();
  plan.layout.order = ByteOrder::kBig;
  plan.layout.format = kIeeeFloat;
  plan.layout.samples = axis.size();
  std::vector<std::string> lines = {"C 1 WRITTEN BY CRATON FROM A VOLUME",
                                    "C 2 " + volume.info().name};
  int card = 3;
  for (const Axis& a : volume.info().axes) {
    lines.push_back(fmt::format("C{:>2} {}: {} values from {} to {} {}", card++, a.name, a.size(),
                                a.coordinates.front(), a.coordinates.back(), a.unit));
  }
  lines.push_back(fmt::format(
      "C{:>2} INLINE BYTES 189-192, CROSSLINE 193-196, CDP 21-24, OFFSET 37-40", card++));
  lines.push_back(fmt::format("C{:>2} X BYTES 181-184, Y 185-188, SCALAR 71-72", card));
  for (; card < 40; ++card) lines.push_back(fmt::format("C{:>2}", card + 1));
  lines[38] = "C39 SEG Y REV1";
  lines[39] = "C40 END TEXTUAL HEADER";
  plan.before_traces = encode_text(lines);
  plan.before_traces.resize(kFileHeaderBytes);
  std::byte* binary = plan.before_traces.data() + kTextHeaderBytes;
  const ByteOrder order = plan.layout.order;
  store<int16_t>(binary + 54, axis.unit == "ft" ? 2 : 1, order);
  store<uint8_t>(binary + 300, 1, order);
  store<uint16_t>(binary + 302, 1, order);
  if (axis.size() > 65535) {
    store<uint8_t>(binary + 300, 2, order);
    store<uint32_t>(binary + 68, static_cast<uint32_t>(axis.size()), order);
    store<uint32_t>(binary + 96, 0x01020304u, order);
  }
}

/// The original's headers and order, as ingest kept them.
void plan_from_original(const Volume& source, const SegyFileHeader& header, ExportPlan& plan) {
  plan.layout = parse_file_layout(header.more);
  for (const auto* part : {&header.raw_text, &header.raw_binary, &header.raw_extended}) {
    plan.before_traces.insert(plan.before_traces.end(), part->begin(), part->end());
  }
  plan.after_traces = header.raw_trailer;
  const bool size_ok = plan.layout.su ? header.raw_text.empty()
                                      : header.raw_text.size() == kTextHeaderBytes &&
                                            header.raw_binary.size() == 400;
  const auto index = source.read_array(kTraceIndexArray);
  if (!size_ok || !index || index->bytes.size() != 8 * static_cast<size_t>(cell_count(source)) ||
      source.trace_header_bytes() < plan.layout.header_bytes) {
    fail(ErrorCode::kCorrupt, "{} says that it was SEG-Y, but its headers are not complete",
         source.info().uri);
  }
  plan.headers = &source;
  plan.origin_of_cell = elements<int64_t>(*index);
  if (const auto words = source.read_array(kIbmWordsArray)) {
    const auto numbers = elements<uint64_t>(*words);
    for (size_t i = 0; i + 1 < numbers.size(); i += 2)
      plan.kept_words.push_back({numbers[i], numbers[i + 1]});
    std::sort(plan.kept_words.begin(), plan.kept_words.end());
  }
}

/// Originals in their order, then what has no original but is live.
void number_traces(const Volume& volume, ExportPlan& plan) {
  const auto cells = static_cast<size_t>(cell_count(volume));
  plan.origin_of_cell.resize(cells, -1);
  std::vector<size_t> order;
  for (size_t cell = 0; cell < cells; ++cell) {
    if (plan.origin_of_cell[cell] >= 0) order.push_back(cell);
  }
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return plan.origin_of_cell[a] < plan.origin_of_cell[b]; });
  for (size_t i = 1; i < order.size(); ++i) {
    if (plan.origin_of_cell[order[i]] == plan.origin_of_cell[order[i - 1]]) {
      fail(ErrorCode::kCorrupt, "{}: two places claim the same trace {} of the original file",
           volume.info().uri, plan.origin_of_cell[order[i]]);
    }
  }
  for (size_t cell = 0; cell < cells; ++cell) {
    if (plan.origin_of_cell[cell] < 0 && volume.live()[cell] != 0) order.push_back(cell);
  }
  if (order.empty())
    fail(ErrorCode::kInvalidArgument, "{} has no live traces to export", volume.info().uri);
  plan.place_of_cell.assign(cells, -1);
  for (size_t i = 0; i < order.size(); ++i) plan.place_of_cell[order[i]] = static_cast<int64_t>(i);
  plan.traces = static_cast<int64_t>(order.size());
}

void sample_axis(const Volume& volume, ExportPlan& plan) {
  const Axis& axis = volume.info().axes.back();
  plan.start = axis.coordinates.front();
  plan.step = axis.size() > 1 ? axis.coordinates[1] - axis.coordinates[0] : 0;
}

void set_format_and_counts(const ExportOptions& options, ExportPlan& plan) {
  const bool changed = options.format && *options.format != plan.layout.format;
  if (options.format) {
    if (sample_bytes(*options.format) == 0) {
      fail(ErrorCode::kInvalidArgument,
           "--format {} is no SEG-Y sample format; expected 1..12, 15 or 16", *options.format);
    }
    plan.layout.format = *options.format;
  }
  if (changed || plan.layout.format != kIbmFloat) plan.kept_words.clear();
  if (plan.layout.su) return;
  std::byte* binary = plan.before_traces.data() + kTextHeaderBytes;
  const ByteOrder order = plan.layout.order;
  if (changed || plan.headers == nullptr)
    store<uint16_t>(binary + 24, static_cast<uint16_t>(plan.layout.format), order);
  if (plan.headers == nullptr || !plan.layout.whole) {
    const auto interval = std::lround(plan.step * 1000);
    store<uint16_t>(binary + 16,
                    static_cast<uint16_t>(interval > 0 && interval < 32768 ? interval : 0), order);
    store<uint16_t>(binary + 20,
                    static_cast<uint16_t>(plan.layout.samples <= 65535 ? plan.layout.samples : 0),
                    order);
  }
}

/// When a document of a store on a file system was last written, as text; empty for others.
std::string changed_at(const std::string& uri, const char* document) {
  const std::filesystem::path path(uri.starts_with("file://") ? uri.substr(7) : uri);
  std::error_code error;
  const auto time = std::filesystem::last_write_time(path / document, error);
  return error ? "" : std::to_string(time.time_since_epoch().count());
}

}  // namespace

std::string ExportPlan::source_key(const Volume& volume) const {
  Sha256 digest;
  const auto add = [&](const auto& elements) {
    digest.update(std::as_bytes(std::span(elements)));
    digest.update(std::as_bytes(std::span("|", 1)));
  };
  const auto add_store = [&](const VolumeInfo& info) {
    add(info.uri);
    add(info.attributes);
    add(info.sample_type);
    add(info.statistics.histogram_counts);
    const Statistics& s = info.statistics;
    add(std::array{s.sum, s.sum_squares, s.min, s.max});
    for (const char* name : {"zarr.json", ".zmetadata", ".zattrs", ".zgroup"})
      add(changed_at(info.uri, name));
  };
  add_store(volume.info());
  if (headers != nullptr) add_store(headers->info());
  add(before_traces);
  add(after_traces);
  add(place_of_cell);
  add(origin_of_cell);
  add(kept_words);
  add(x);
  add(y);
  add(std::array{static_cast<double>(layout.format), static_cast<double>(layout.samples), start,
                 step});
  return "export 1 " + digest.hex_digest();
}

ExportPlan plan_export(const Volume& volume, const ExportOptions& options) {
  const Volume& source = options.headers_from != nullptr ? *options.headers_from : volume;
  if (source.info().shape() != volume.info().shape()) {
    fail(ErrorCode::kInvalidArgument,
         "{} and {} differ in shape; headers can only come from a volume of the same grid",
         source.info().uri, volume.info().uri);
  }
  ExportPlan plan;
  const auto header = source.segy_file_header();
  if (header && !header->more.empty() && header->more != "{}") {
    plan_from_original(source, *header, plan);
  } else if (options.headers_from != nullptr) {
    fail(ErrorCode::kInvalidArgument, "{} was not made from SEG-Y with headers kept",
         source.info().uri);
  } else {
    plan_new_file(volume, plan);
  }
  if (&source != &volume) plan.kept_words.clear();
  sample_axis(volume, plan);
  if (plan.layout.samples > volume.info().axes.back().size()) {
    fail(ErrorCode::kCorrupt, "{} has {} samples, its SEG-Y header says {}", volume.info().uri,
         volume.info().axes.back().size(), plan.layout.samples);
  }
  number_traces(volume, plan);
  set_format_and_counts(options, plan);
  const auto x = volume.read_array("cdp_x"), y = volume.read_array("cdp_y");
  if (x && y) {
    plan.x = x->numbers();
    plan.y = y->numbers();
  }
  return plan;
}

std::vector<std::byte> make_trace_header(const Volume& volume, const ExportPlan& plan,
                                         int64_t cell) {
  std::vector<std::byte> header(plan.layout.header_bytes);
  const ByteOrder order = plan.layout.order;
  const auto set = [&](int byte, double value) {
    store<int32_t>(header.data() + byte - 1,
                   static_cast<int32_t>(std::clamp(std::round(value), -2147483647.0, 2147483647.0)),
                   order);
  };
  const auto set_short = [&](int byte, double value) {
    store<int16_t>(header.data() + byte - 1,
                   static_cast<int16_t>(std::clamp(std::round(value), -32768.0, 32767.0)), order);
  };
  const auto place = plan.place_of_cell[static_cast<size_t>(cell)];
  set(1, static_cast<double>(place + 1));
  set(5, static_cast<double>(place + 1));
  set(21, static_cast<double>(place + 1));
  const auto& axes = volume.info().axes;
  int64_t rest = cell;
  for (size_t d = axes.size() - 1; d-- > 0;) {
    const double value = axes[d].coordinates[static_cast<size_t>(rest % axes[d].size())];
    rest /= axes[d].size();
    if (axes[d].name == "inline") set(189, value);
    if (axes[d].name == "crossline") set(193, value);
    if (axes[d].name == "cdp" || axes[d].name == "trace") set(21, value);
    if (axes[d].name == "offset" || axes[d].name == "angle") set(37, value);
  }
  set_short(29, 1);
  const auto at = static_cast<size_t>(cell);
  if (at < plan.x.size() && at < plan.y.size() && std::isfinite(plan.x[at]) &&
      std::isfinite(plan.y[at])) {
    const double scale = std::max(std::abs(plan.x[at]), std::abs(plan.y[at])) < 2e7 ? 100 : 1;
    set_short(71, scale > 1 ? -scale : 1);
    for (int byte : {73, 181}) set(byte, plan.x[at] * scale);
    for (int byte : {77, 185}) set(byte, plan.y[at] * scale);
  }
  set_short(109, plan.start);
  const int64_t samples = plan.layout.samples;
  store<uint16_t>(header.data() + 114, static_cast<uint16_t>(samples <= 65535 ? samples : 0),
                  order);
  set_short(117, plan.step * 1000);
  return header;
}

}  // namespace craton::volume::segy
