#include "craton/volume/segy/survey_report.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <nlohmann/json.hpp>

#include "craton/base/units.h"
#include "craton/runtime/thread_pool.h"

namespace craton::volume::segy {

namespace {

/// Places where surveys keep line, crossline, cdp, shot and channel numbers; four bytes each.
constexpr int kUsualPlaces[] = {1,   5,   9,   13,  17,  21,  25,  37,  73,  77,  81,  85,  181,
                                185, 189, 193, 197, 201, 205, 209, 213, 221, 225, 229, 233, 237};
constexpr size_t kPlaces = std::size(kUsualPlaces);
constexpr size_t kMaxDistinct = 1'000'000;

/// Distinct values in bounded memory: sorted now and then; gives up counting beyond kMaxDistinct.
struct Column {
  int64_t min = INT64_MAX, max = INT64_MIN;
  std::vector<int32_t> values;

  void add(int32_t v) {
    min = std::min<int64_t>(min, v);
    max = std::max<int64_t>(max, v);
    if (!values.empty() && values.back() == v) return;
    values.push_back(v);
    if (values.size() >= 2 * kMaxDistinct) compact();
  }
  void compact() {
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    if (values.size() > kMaxDistinct) values.resize(kMaxDistinct);
  }
  void merge(Column& other) {
    min = std::min(min, other.min);
    max = std::max(max, other.max);
    values.insert(values.end(), other.values.begin(), other.values.end());
    if (values.size() >= kMaxDistinct) compact();
  }
};

std::string name_at(int byte) {
  for (const LayoutField& field : trace_header_layout()) {
    if (field.byte == byte) return field.name;
  }
  return "";
}

/// Pairs of places whose numbers of values multiply to about the number of traces, and that do make
/// a grid.
std::vector<std::pair<HeaderField, HeaderField>> fitting_pairs(
    std::span<const SourceFile> files, const std::vector<CandidateField>& candidates,
    int64_t traces, GeometryOptions options, size_t threads) {
  struct Pair {
    double cells;
    HeaderField slow, fast;
  };
  std::vector<Pair> pairs;
  for (size_t a = 0; a < candidates.size(); ++a) {
    for (size_t b = a + 1; b < candidates.size(); ++b) {
      const auto& x = candidates[a];
      const auto& y = candidates[b];
      const double cells = static_cast<double>(x.distinct) * static_cast<double>(y.distinct);
      const bool usable =
          x.distinct > 1 && y.distinct > 1 && x.distinct < traces && y.distinct < traces;
      if (usable && cells >= static_cast<double>(traces) &&
          cells <= 2 * static_cast<double>(traces)) {
        pairs.push_back({cells, x.field, y.field});
      }
    }
  }
  std::stable_sort(pairs.begin(), pairs.end(),
                   [](const Pair& a, const Pair& b) { return a.cells < b.cells; });
  if (pairs.size() > 8) pairs.resize(8);
  options.kind = GeometryKind::k3d;
  options.own_fields = true;
  options.duplicates = Duplicates::kError;
  options.delay = DelayPolicy::kIgnore;
  options.use_offset = false;
  std::vector<std::pair<HeaderField, HeaderField>> out;
  for (const Pair& pair : pairs) {
    FieldChoice fields;
    fields.inline_field = pair.slow;
    fields.crossline_field = pair.fast;
    try {
      const Geometry geometry = plan_geometry(scan_traces(files, fields, threads), fields,
                                              common_sampling(files), options);
      if (geometry.axes.size() == 3) out.emplace_back(pair.slow, pair.fast);
    } catch (const Error&) {
      // Not this pair.
    }
  }
  return out;
}

void look_at_samples(const SourceFile& file, SurveyReport& report) {
  report.probe = probe_samples(*file.source, file.facts);
  const SampleProbe& probe = report.probe;
  if (probe.looks_ieee) {
    report.remarks.push_back(
        {fmt::format(
             "labelled IBM float, but {:.1f} % of the words are not normalised: probably IEEE",
             100 * probe.digits.share()),
         "--format 5"});
  }
  if (probe.looks_ibm) {
    report.remarks.push_back(
        {"labelled IEEE float, but all words would be normalised IBM floats", "--format 1"});
  }
  if (probe.not_finite > 0) {
    report.remarks.push_back(
        {fmt::format("{} samples looked at are infinite or not a number", probe.not_finite),
         "--format"});
  }
  if (probe.count == 0) report.remarks.push_back({"all samples looked at are zero", ""});
}

void read_text(const SourceFile& file, SurveyReport& report) {
  if (file.facts.su) return;
  std::vector<std::byte> raw(kTextHeaderBytes);
  file.source->read(0, raw);
  report.text = text_lines(raw, file.facts.text_encoding);
}

std::string number(double v) { return fmt::format("{:.10g}", v); }

std::string order_name(ByteOrder order) {
  return order == ByteOrder::kBig ? "big-endian" : "little-endian";
}

void append_file(const FileFacts& facts, std::string& out) {
  const auto line = [&](std::string_view name, const std::string& value) {
    out += fmt::format("  {:<12} {}\n", name, value);
  };
  out += fmt::format("{}\n", facts.name);
  line("kind", facts.su ? "Seismic Unix"
                        : fmt::format("SEG-Y revision {}.{}, {} text header, {}",
                                      facts.revision_major, facts.revision_minor,
                                      to_string(facts.text_encoding), order_name(facts.order)));
  line("size", fmt::format("{} ({} bytes), traces from byte {}",
                           format_bytes(static_cast<double>(facts.file_bytes)), facts.file_bytes,
                           facts.first_trace));
  if (facts.extended_headers > 0)
    line("extended", fmt::format("{} extended text headers", facts.extended_headers));
  line("format", fmt::format("{} ({})", facts.format, format_name(facts.format)));
  line("traces", fmt::format("{} of {} samples{}", facts.traces, facts.samples,
                             facts.variable_offsets.empty() ? "" : " at most (they differ)"));
  line("interval",
       facts.interval_us > 0 ? fmt::format("{} us", number(facts.interval_us)) : "unknown");
}

nlohmann::json remarks_json(const std::vector<Remark>& remarks) {
  nlohmann::json out = nlohmann::json::array();
  for (const Remark& remark : remarks)
    out.push_back({{"text", remark.text}, {"option", remark.option}});
  return out;
}

nlohmann::json file_json(const FileFacts& facts) {
  return {{"name", facts.name},
          {"bytes", facts.file_bytes},
          {"seismic_unix", facts.su},
          {"revision", fmt::format("{}.{}", facts.revision_major, facts.revision_minor)},
          {"text_encoding", std::string(to_string(facts.text_encoding))},
          {"byte_order", facts.order == ByteOrder::kBig ? "big" : "little"},
          {"format", facts.format},
          {"format_name", format_name(facts.format)},
          {"traces", facts.traces},
          {"samples", facts.samples},
          {"interval_us", facts.interval_us},
          {"first_trace_offset", facts.first_trace},
          {"trace_bytes", facts.trace_bytes},
          {"trace_header_bytes", facts.header_bytes},
          {"extended_text_headers", facts.extended_headers}};
}

nlohmann::json axis_json(const Axis& axis) {
  nlohmann::json out = {{"name", axis.name},
                        {"unit", axis.unit},
                        {"size", axis.size()},
                        {"first", axis.coordinates.front()},
                        {"last", axis.coordinates.back()}};
  const auto step = regular_step(axis.coordinates);
  out["step"] = step ? nlohmann::json(*step) : nlohmann::json(nullptr);
  return out;
}

}  // namespace

std::string describe(const Axis& axis) {
  const std::string unit = axis.unit.empty() ? "" : " " + axis.unit;
  if (axis.size() == 1) return fmt::format("{}{} (1)", number(axis.coordinates.front()), unit);
  const auto step = regular_step(axis.coordinates);
  return fmt::format("{}..{}{} {} ({})", number(axis.coordinates.front()),
                     number(axis.coordinates.back()), unit,
                     step ? "step " + number(*step) : "irregular", axis.size());
}

std::vector<CandidateField> candidate_fields(std::span<const SourceFile> files, size_t threads) {
  std::array<Column, kPlaces> columns;
  std::mutex mutex;
  for (const SourceFile& file : files) {
    constexpr int64_t kBlock = 16384;
    const int64_t traces = file.facts.traces;
    runtime::parallel_for(
        static_cast<size_t>((traces + kBlock - 1) / kBlock), threads, [&](size_t block) {
          std::array<Column, kPlaces> local;
          const int64_t begin = static_cast<int64_t>(block) * kBlock;
          for_each_header(
              file, begin, std::min(begin + kBlock, traces),
              [&](int64_t, std::span<const std::byte> header) {
                for (size_t i = 0; i < kPlaces; ++i) {
                  local[i].add(load_at<int32_t>(header, kUsualPlaces[i], file.facts.order));
                }
              });
          const std::lock_guard lock(mutex);
          for (size_t i = 0; i < kPlaces; ++i) columns[i].merge(local[i]);
        });
  }
  std::vector<CandidateField> out;
  for (size_t i = 0; i < kPlaces; ++i) {
    columns[i].compact();
    if (columns[i].values.empty() || (columns[i].min == 0 && columns[i].max == 0)) continue;
    out.push_back({{kUsualPlaces[i], FieldType::kInt32},
                   name_at(kUsualPlaces[i]),
                   columns[i].min,
                   columns[i].max,
                   static_cast<int64_t>(columns[i].values.size())});
  }
  return out;
}

SurveyReport survey(std::span<const SourceFile> files, const FieldChoice& fields,
                    const GeometryOptions& options, size_t threads) {
  SurveyReport report;
  int64_t traces = 0;
  for (const SourceFile& file : files) {
    require_readable(file.facts);
    report.files.push_back(file.facts);
    report.remarks.insert(report.remarks.end(), file.facts.remarks.begin(),
                          file.facts.remarks.end());
    traces += file.facts.traces;
  }
  read_text(files.front(), report);
  look_at_samples(files.front(), report);
  report.candidates = candidate_fields(files, threads);
  try {
    report.geometry =
        plan_geometry(scan_traces(files, fields, threads), fields, common_sampling(files), options);
    report.remarks.insert(report.remarks.end(), report.geometry->remarks.begin(),
                          report.geometry->remarks.end());
  } catch (const Error& e) {
    report.geometry_problem = e.message();
    report.fitting = fitting_pairs(files, report.candidates, traces, options, threads);
  }
  return report;
}

std::string to_text(const SurveyReport& report) {
  std::string out;
  for (const FileFacts& facts : report.files) append_file(facts, out);
  const SampleProbe& probe = report.probe;
  out += fmt::format(
      "  {:<12} {}..{}, mean {}, standard deviation {} (nonzero samples of {} traces)\n", "values",
      number(probe.min), number(probe.max), fmt::format("{:.4g}", probe.mean),
      fmt::format("{:.4g}", probe.standard_deviation), probe.traces);
  if (report.geometry) {
    out += fmt::format("\ngeometry: {}\n", report.geometry->template_name);
    for (const Axis& axis : report.geometry->axes)
      out += fmt::format("  {:<12} {}\n", axis.name, describe(axis));
    out += fmt::format("  {:<12} {} of {} places\n", "live", report.geometry->live,
                       report.geometry->cells());
  } else {
    out += fmt::format("\ngeometry: none. {}\n", report.geometry_problem);
    for (const auto& [slow, fast] : report.fitting) {
      out += fmt::format("  these bytes would make a grid: --inline {} --crossline {}\n",
                         to_string(slow), to_string(fast));
    }
  }
  out += fmt::format(
      "\nnumbers in the trace headers (bytes that are not always 0)\n  {:<6} {:<30} {:>12} {:>12} "
      "{:>10}\n",
      "byte", "name", "min", "max", "distinct");
  for (const CandidateField& c : report.candidates) {
    out += fmt::format("  {:<6} {:<30} {:>12} {:>12} {:>10}\n", to_string(c.field), c.name, c.min,
                       c.max, c.distinct);
  }
  out += report.remarks.empty() ? "\nnothing suspicious\n" : "\nsuspicious\n";
  for (const Remark& remark : report.remarks) {
    out += fmt::format("  - {}{}\n", remark.text,
                       remark.option.empty() ? "" : fmt::format(" [{}]", remark.option));
  }
  return out;
}

std::string to_json(const SurveyReport& report) {
  nlohmann::json out;
  for (const FileFacts& facts : report.files) out["files"].push_back(file_json(facts));
  const SampleProbe& probe = report.probe;
  out["samples"] = {{"traces_looked_at", probe.traces},
                    {"nonzero", probe.count},
                    {"not_finite", probe.not_finite},
                    {"min", probe.min},
                    {"max", probe.max},
                    {"mean", probe.mean},
                    {"standard_deviation", probe.standard_deviation},
                    {"looks_ieee", probe.looks_ieee},
                    {"looks_ibm", probe.looks_ibm}};
  if (report.geometry) {
    nlohmann::json axes = nlohmann::json::array();
    for (const Axis& axis : report.geometry->axes) axes.push_back(axis_json(axis));
    out["geometry"] = {{"template", report.geometry->template_name},
                       {"axes", axes},
                       {"live", report.geometry->live},
                       {"places", report.geometry->cells()},
                       {"duplicates", report.geometry->duplicates}};
  } else {
    out["geometry"] = nullptr;
    out["geometry_problem"] = report.geometry_problem;
    out["fitting"] = nlohmann::json::array();
    for (const auto& [slow, fast] : report.fitting) {
      out["fitting"].push_back({{"inline", to_string(slow)}, {"crossline", to_string(fast)}});
    }
  }
  out["candidates"] = nlohmann::json::array();
  for (const CandidateField& c : report.candidates) {
    out["candidates"].push_back({{"byte", c.field.byte},
                                 {"name", c.name},
                                 {"min", c.min},
                                 {"max", c.max},
                                 {"distinct", c.distinct}});
  }
  out["text_header"] = report.text;
  out["suspicious"] = remarks_json(report.remarks);
  return out.dump(2);
}

}  // namespace craton::volume::segy
