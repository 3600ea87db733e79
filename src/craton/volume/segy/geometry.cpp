#include "craton/volume/segy/geometry.h"

#include <algorithm>
#include <cmath>

namespace craton::volume::segy {

namespace {

/// The distinct values of a column, sorted, and the way from a value to its index.
class Values {
 public:
  Values() = default;
  explicit Values(std::span<const double> column) {
    for (double v : column) {
      if (!std::isfinite(v)) {
        ++not_numbers_;
      } else if (sorted_.empty() || sorted_.back() != v) {
        sorted_.push_back(v);
      }
    }
    std::sort(sorted_.begin(), sorted_.end());
    sorted_.erase(std::unique(sorted_.begin(), sorted_.end()), sorted_.end());
    step_ = regular_step(sorted_).value_or(0);
  }
  int64_t size() const { return static_cast<int64_t>(sorted_.size()); }
  bool varies() const { return sorted_.size() > 1; }
  int64_t not_numbers() const { return not_numbers_; }
  double first() const { return sorted_.empty() ? 0 : sorted_.front(); }
  const std::vector<double>& sorted() const { return sorted_; }
  int64_t index(double v) const {
    if (step_ > 0) return static_cast<int64_t>((v - sorted_.front()) / step_ + 0.5);
    return std::lower_bound(sorted_.begin(), sorted_.end(), v) - sorted_.begin();
  }
  std::string range() const {
    if (sorted_.empty()) return "none";
    if (!varies()) return fmt::format("always {}", sorted_.front());
    return fmt::format("{}..{} ({} values)", sorted_.front(), sorted_.back(), size());
  }

 private:
  std::vector<double> sorted_;
  double step_ = 0;
  int64_t not_numbers_ = 0;
};

/// A named column that becomes an axis.
struct Key {
  std::string name;
  std::string unit;
  std::span<const double> column;
  const Values* values;
};

class Planner {
 public:
  Planner(const TraceTable& table, const FieldChoice& fields, const Sampling& sampling,
          const GeometryOptions& options)
      : table_(table), fields_(fields), sampling_(sampling), options_(options) {}

  Geometry plan() {
    if (table_.size() == 0) fail(ErrorCode::kInvalidArgument, "there are no traces");
    inlines_ = Values(table_.inline_number);
    crosslines_ = Values(table_.crossline_number);
    cdps_ = Values(table_.cdp);
    choose_keys();
    add_offset_axis();
    place_traces();
    sample_axis();
    name_template();
    remark_coordinates();
    return std::move(out_);
  }

 private:
  std::string found() const {
    return fmt::format("{} traces; inline bytes {}: {}; crossline bytes {}: {}; cdp bytes {}: {}",
                       table_.size(), to_string(fields_.inline_field), inlines_.range(),
                       to_string(fields_.crossline_field), crosslines_.range(),
                       to_string(fields_.cdp_field), cdps_.range());
  }

  Key inline_key() const { return {"inline", "", table_.inline_number, &inlines_}; }
  Key crossline_key() const { return {"crossline", "", table_.crossline_number, &crosslines_}; }
  Key cdp_key() const { return {"cdp", "", table_.cdp, &cdps_}; }
  Key trace_key(std::string name) {
    numbers_.resize(static_cast<size_t>(table_.size()));
    for (size_t i = 0; i < numbers_.size(); ++i) numbers_[i] = static_cast<double>(i + 1);
    trace_values_ = Values(numbers_);
    return {std::move(name), "", numbers_, &trace_values_};
  }

  void line_by(Key key, std::string_view why) {
    key.name = "cdp";
    keys_ = {std::move(key)};
    if (!why.empty()) out_.remarks.push_back({std::string(why), "--geometry 3d"});
  }

  void choose_keys() {
    if (options_.kind == GeometryKind::kTraces) {
      keys_ = {trace_key("trace")};
    } else if (options_.kind == GeometryKind::k2d) {
      choose_line();
    } else if (options_.kind == GeometryKind::k3d || options_.own_fields) {
      keys_ = {inline_key(), crossline_key()};
    } else {
      choose_by_content();
    }
    for (const Key& key : keys_) check_numbers(key);
  }

  void check_numbers(const Key& key) const {
    if (key.values->not_numbers() > 0) {
      fail(ErrorCode::kInvalidArgument,
           "{} traces have no {} number (the header field is infinite or not a number); {}",
           key.values->not_numbers(), key.name, found());
    }
  }

  void choose_by_content() {
    const bool both = inlines_.varies() && crosslines_.varies();
    const bool never_repeat =
        inlines_.size() == table_.size() && crosslines_.size() == table_.size();
    if (both && never_repeat && table_.size() > 2) {
      line_by(cdps_.size() == table_.size() ? cdp_key() : trace_key("cdp"),
              "inline and crossline numbers never repeat: read as a line across the survey");
    } else if (both) {
      keys_ = {inline_key(), crossline_key()};
    } else {
      choose_line();
    }
  }

  /// A line is numbered by whatever varies along it.
  void choose_line() {
    if (inlines_.varies() && !crosslines_.varies()) {
      line_by(inline_key(),
              fmt::format("all traces lie on crossline {}: read as a line, numbered by inline",
                          crosslines_.first()));
    } else if (crosslines_.varies() && !inlines_.varies()) {
      line_by(crossline_key(),
              fmt::format("all traces lie on inline {}: read as a line, numbered by crossline",
                          inlines_.first()));
    } else if (cdps_.varies()) {
      line_by(cdp_key(), "");
    } else if (table_.size() == 1) {
      line_by(cdps_.first() != 0 ? cdp_key() : crossline_key(), "");
    } else if (Values(table_.offset).size() == table_.size()) {
      line_by(cdp_key(), "");  // one gather
    } else {
      fail(ErrorCode::kInvalidArgument,
           "no bytes number the traces: {}; name the bytes with --inline N --crossline N (craton "
           "volume info lists candidates), or "
           "take the traces as a line with --geometry traces",
           found());
    }
  }

  bool any_place_taken_twice() const {
    const int64_t cells = cell_count(keys_);
    if (cells > limit()) return false;  // place_traces refuses it
    std::vector<bool> taken(static_cast<size_t>(cells));
    for (int64_t row = 0; row < table_.size(); ++row) {
      const auto cell = static_cast<size_t>(cell_of(keys_, row));
      if (taken[cell]) return true;
      taken[cell] = true;
    }
    return false;
  }

  void add_offset_axis() {
    offsets_ = Values(table_.offset);
    const bool wanted = options_.use_offset || (options_.kind != GeometryKind::kTraces &&
                                                options_.duplicates == Duplicates::kError &&
                                                offsets_.varies() && any_place_taken_twice());
    if (!wanted) return;
    keys_.push_back({options_.gather_axis, options_.gather_axis == "angle" ? "deg" : "m",
                     table_.offset, &offsets_});
    check_numbers(keys_.back());
  }

  static int64_t cell_count(const std::vector<Key>& keys) {
    int64_t cells = 1;
    for (const Key& key : keys) {
      if (__builtin_mul_overflow(cells, key.values->size(), &cells)) return INT64_MAX;
    }
    return cells;
  }

  static int64_t cell_of(const std::vector<Key>& keys, int64_t row) {
    int64_t cell = 0;
    for (const Key& key : keys) {
      cell = cell * key.values->size() + key.values->index(key.column[static_cast<size_t>(row)]);
    }
    return cell;
  }

  int64_t limit() const {
    const double cells = options_.max_cells_per_trace * static_cast<double>(table_.size());
    return cells > 1e15 ? INT64_MAX : static_cast<int64_t>(cells);
  }

  std::string grid_text() const {
    std::string text;
    for (const Key& key : keys_) {
      text += fmt::format("{}{} {}", text.empty() ? "" : " x ", key.values->size(), key.name);
    }
    return text;
  }

  void place_traces() {
    const int64_t cells = cell_count(keys_);
    const double ratio = static_cast<double>(cells) / static_cast<double>(table_.size());
    if (cells > limit()) {
      fail(ErrorCode::kInvalidArgument,
           "a grid of {} would have {:.0f} places for {} traces: the bytes hardly hold these "
           "numbers ({}); name others with --inline "
           "N --crossline N, take the traces as a line with --geometry traces, or insist with "
           "--max-sparsity {:.0f}",
           grid_text(), static_cast<double>(cells), table_.size(), found(), std::ceil(ratio));
    }
    out_.trace_of_cell.assign(static_cast<size_t>(cells), -1);
    int64_t first_taken = -1;
    for (int64_t row = 0; row < table_.size(); ++row) {
      int64_t& place = out_.trace_of_cell[static_cast<size_t>(cell_of(keys_, row))];
      if (place >= 0) {
        ++out_.duplicates;
        if (first_taken < 0) first_taken = row;
      }
      if (place < 0 || options_.duplicates == Duplicates::kLast) place = row;
    }
    if (out_.duplicates > 0) settle_duplicates(first_taken);
    for (int64_t row : out_.trace_of_cell) {
      if (row >= 0 && table_.dead[static_cast<size_t>(row)] == 0) ++out_.live;
    }
    if (ratio > 2) {
      out_.remarks.push_back(
          {fmt::format("only {:.0f} % of the grid ({}) holds traces", 100 / ratio, grid_text()),
           "--inline, --crossline"});
    }
    for (const Key& key : keys_) out_.axes.push_back({key.name, key.unit, key.values->sorted()});
  }

  void settle_duplicates(int64_t row) {
    std::string where;
    for (const Key& key : keys_) {
      where += fmt::format("{}{} {}", where.empty() ? "" : ", ", key.name,
                           key.column[static_cast<size_t>(row)]);
    }
    const std::string text =
        fmt::format("{} traces share their place with an earlier one (first: trace {} at {})",
                    out_.duplicates, row + 1, where);
    if (options_.duplicates == Duplicates::kError) {
      fail(ErrorCode::kInvalidArgument,
           "{}; {}; use --duplicates first or last to keep one, --offset N to tell them apart, or "
           "other --inline and --crossline bytes",
           text, found());
    }
    out_.remarks.push_back(
        {fmt::format("{}; the {} is kept", text,
                     options_.duplicates == Duplicates::kFirst ? "first" : "last"),
         "--duplicates"});
  }

  void sample_axis() {
    const bool depth = options_.domain == Domain::kDepth;
    const double step = sampling_.interval_us > 0 ? sampling_.interval_us / 1000 : 1;
    const auto [low, high] = std::minmax_element(table_.delay_ms.begin(), table_.delay_ms.end());
    double start = *low;
    int64_t samples = sampling_.samples;
    if (options_.start) {
      start = *options_.start;
    } else if (*low != *high) {
      samples += spread_of_delays(*low, *high, step);
    }
    Axis axis;
    axis.name = sampling_.interval_us <= 0 ? "sample" : depth ? "depth" : "time";
    axis.unit = sampling_.interval_us <= 0 ? "" : !depth ? "ms" : sampling_.feet ? "ft" : "m";
    if (axis.name == "sample" && !options_.start) start = 0;
    axis.coordinates.resize(static_cast<size_t>(samples));
    for (size_t i = 0; i < axis.coordinates.size(); ++i)
      axis.coordinates[i] = start + static_cast<double>(i) * step;
    out_.axes.push_back(std::move(axis));
  }

  /// Samples to add because traces start at different times; fills the shifts.
  int64_t spread_of_delays(double low, double high, double step) {
    if (options_.delay == DelayPolicy::kIgnore) {
      out_.remarks.push_back(
          {fmt::format("delay recording times from {} to {} ms; {} is used for all", low, high,
                       low),
           "--delay"});
      return 0;
    }
    if (options_.delay == DelayPolicy::kError) {
      fail(ErrorCode::kInvalidArgument,
           "the delay recording time (bytes 109-110) is not the same everywhere: {} to {} ms; use "
           "--delay shift to put each trace at "
           "its time, --delay ignore to start all at {} ms, or --start MS",
           low, high, low);
    }
    const double limit_samples = static_cast<double>(sampling_.samples) * 4 + 1000;
    if ((high - low) / step > limit_samples) {
      fail(ErrorCode::kInvalidArgument,
           "delay recording times from {} to {} ms are too far apart to shift; use --start MS", low,
           high);
    }
    out_.shift.resize(table_.delay_ms.size());
    for (size_t i = 0; i < out_.shift.size(); ++i) {
      const double shift = (static_cast<double>(table_.delay_ms[i]) - low) / step;
      if (std::abs(shift - std::round(shift)) > 1e-3) {
        fail(ErrorCode::kInvalidArgument,
             "the delay of trace {} ({} ms) is no whole number of samples ({} ms) after the first "
             "({} ms); use --delay ignore",
             i + 1, table_.delay_ms[i], step, low);
      }
      out_.shift[i] = static_cast<int32_t>(std::lround(shift));
    }
    return std::lround((high - low) / step);
  }

  void name_template() {
    const bool gathers = keys_.back().name == options_.gather_axis && keys_.size() > 1;
    const bool is_3d = keys_.size() - (gathers ? 1 : 0) == 2;
    out_.survey_type = is_3d ? "3D" : "2D";
    const char* domain = options_.domain == Domain::kDepth ? "Depth" : "Time";
    out_.template_name = gathers ? fmt::format("PreStackCdp{}{}{}",
                                               options_.gather_axis == "angle" ? "Angle" : "Offset",
                                               out_.survey_type, domain)
                                 : fmt::format("PostStack{}{}", out_.survey_type, domain);
  }

  void remark_coordinates() {
    if (table_.odd_scalars > 0) {
      out_.remarks.push_back({fmt::format("{} traces have a coordinate scalar that is no power of "
                                          "ten (bytes 71-72); read as 1",
                                          table_.odd_scalars),
                              ""});
    }
    if (table_.missing_coordinates > 0) {
      out_.remarks.push_back(
          {fmt::format("{} traces have no coordinates (the smallest integer stands for them)",
                       table_.missing_coordinates),
           "--x, --y"});
    }
    if (table_.coordinates_from_source) {
      out_.remarks.push_back(
          {"CDP coordinates (bytes 181, 185) are zero; those of the source (73, 77) are used",
           "--x, --y"});
    }
    if (table_.zero_scalar && !table_.x.empty()) {
      out_.remarks.push_back(
          {"the coordinate scalar (bytes 71-72) is 0; coordinates are taken as they are", ""});
    }
    if (table_.dead_with_data > 0) {
      out_.remarks.push_back(
          {fmt::format("{} traces are marked dead (bytes 29-30) but hold samples; read as live",
                       table_.dead_with_data),
           ""});
    }
  }

  const TraceTable& table_;
  const FieldChoice& fields_;
  const Sampling& sampling_;
  const GeometryOptions& options_;
  Values inlines_, crosslines_, cdps_, offsets_, trace_values_;
  std::vector<double> numbers_;
  std::vector<Key> keys_;
  Geometry out_;
};

}  // namespace

std::optional<double> regular_step(std::span<const double> coordinates) {
  if (coordinates.size() < 2) return std::nullopt;
  const double step = coordinates[1] - coordinates[0];
  for (size_t i = 2; i < coordinates.size(); ++i) {
    if (coordinates[i] - coordinates[i - 1] != step) return std::nullopt;
  }
  return step;
}

Sampling common_sampling(std::span<const SourceFile> files) {
  const FileFacts& first = files.front().facts;
  const Sampling sampling{first.samples, first.interval_us, first.feet};
  for (const SourceFile& file : files) {
    if (file.facts.samples != sampling.samples || file.facts.interval_us != sampling.interval_us) {
      fail(ErrorCode::kInvalidArgument,
           "{} has {} samples of {} us, {} has {} of {} us; files of one volume must be sampled "
           "alike",
           first.name, sampling.samples, sampling.interval_us, file.facts.name, file.facts.samples,
           file.facts.interval_us);
    }
  }
  return sampling;
}

Geometry plan_geometry(const TraceTable& table, const FieldChoice& fields, const Sampling& sampling,
                       const GeometryOptions& options) {
  return Planner(table, fields, sampling, options).plan();
}

}  // namespace craton::volume::segy
