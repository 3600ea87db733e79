#include "craton/results/svg_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "craton/volume/plot/chart.h"

namespace craton::results {
namespace {

constexpr size_t kMostPoints = 800;
constexpr int kLeft = 58, kRight = 16, kTop = 14, kBottom = 40;

struct Range {
  double low = std::numeric_limits<double>::infinity(),
         high = -std::numeric_limits<double>::infinity();
  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool empty() const { return low > high; }
};

std::string number(double value) {
  const double size = std::abs(value);
  if (size >= 1e12 || (size > 0 && size < 1e-4)) return fmt::format("{:.1e}", value);
  static constexpr std::pair<double, const char*> kUnits[] = {{1e9, "G"}, {1e6, "M"}, {1e4, "k"}};
  for (const auto& [scale, unit] : kUnits) {
    if (size >= scale) return fmt::format("{:.4g}{}", value / (scale == 1e4 ? 1e3 : scale), unit);
  }
  return fmt::format("{:.4g}", value);
}

std::vector<double> log_ticks(double low, double high) {
  const double decades = std::log10(high / low);
  if (decades < 0.4) return volume::plot::round_ticks(low, high, 5);
  std::vector<double> out;
  for (int power = static_cast<int>(std::floor(std::log10(low)));
       power <= std::ceil(std::log10(high)); ++power) {
    for (const double digit : {1.0, 2.0, 5.0}) {
      if (digit != 1 && decades > 3) continue;
      const double value = digit * std::pow(10, power);
      if (value >= low * 0.999 && value <= high * 1.001) out.push_back(value);
    }
  }
  return out;
}

class Chart {
 public:
  Chart(const std::vector<Series>& series, const SvgStyle& style) : series_(series), style_(style) {
    for (Series& s : series_) thin(s.x, s.y, kMostPoints);
    Range x, y;
    for (const Series& s : series_) {
      for (size_t i = 0; i < s.x.size(); ++i) {
        if (!drawable(s.y[i])) continue;
        x.add(s.x[i]);
        y.add(s.y[i]);
      }
    }
    for (const ChartMark& mark : style_.marks) x.add(mark.x);
    has_data_ = !y.empty();
    if (x.empty()) x = {0, 1};
    if (y.empty()) y = {style_.log_y ? 0.1 : 0.0, 1};
    if (style_.reference && drawable(style_.reference->first)) y.add(style_.reference->first);
    if (style_.from_zero) {
      y.add(0);
      y.add(style_.at_least);
    }
    if (x.low == x.high) x.high += 1;
    widen(y);
    x_ = x;
    y_ = y;
  }

  std::string svg() const {
    std::string out =
        fmt::format(R"(<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">)",
                    style_.width, style_.height, escape_html(style_.y_title));
    out += axes();
    for (const ChartMark& mark : style_.marks) {
      out += fmt::format(
          R"(<line class="mark{0}" x1="{1:.1f}" x2="{1:.1f}" y1="{2}" y2="{3}"><title>{4}</title></line>)",
          mark.bad ? " bad" : "", px(mark.x), kTop, bottom(), escape_html(mark.text));
    }
    if (style_.reference && drawable(style_.reference->first)) {
      const double y = py(style_.reference->first);
      out += fmt::format(R"(<line class="reference" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>)",
                         kLeft, right(), y, y);
      out += fmt::format(R"(<text class="note" x="{}" y="{:.1f}" text-anchor="end">{}</text>)",
                         right() - 4, y - 5, escape_html(style_.reference->second));
    }
    for (const Series& s : series_) out += line(s);
    if (!has_data_) {
      out += fmt::format(R"(<text class="note" x="{}" y="{}" text-anchor="middle">no data</text>)",
                         (kLeft + right()) / 2, (kTop + bottom()) / 2);
    }
    out += R"(<g class="hover"></g>)";
    return out + fmt::format(R"(<metadata>{}</metadata></svg>)", escape_html(hover_data()));
  }

 private:
  bool drawable(double y) const { return std::isfinite(y) && (!style_.log_y || y > 0); }
  int right() const { return style_.width - kRight; }
  int bottom() const { return style_.height - kBottom; }

  void widen(Range& y) const {
    if (style_.log_y) {
      y.low *= 0.93;
      y.high *= 1.07;
      return;
    }
    const double room =
        y.high > y.low ? 0.06 * (y.high - y.low) : std::max(1e-12, 0.1 * std::abs(y.high));
    if (!style_.from_zero || y.low < 0) y.low -= room;
    y.high += room;
  }

  double px(double x) const {
    return kLeft + (x - x_.low) / (x_.high - x_.low) * (right() - kLeft);
  }
  double py(double y) const {
    const double share = style_.log_y ? std::log(y / y_.low) / std::log(y_.high / y_.low)
                                      : (y - y_.low) / (y_.high - y_.low);
    return bottom() - share * (bottom() - kTop);
  }

  std::string axes() const {
    std::string out;
    const auto y_ticks = style_.log_y
                             ? log_ticks(y_.low, y_.high)
                             : volume::plot::round_ticks(y_.low, y_.high, style_.height / 55);
    for (const double tick : y_ticks) {
      if (tick < y_.low || tick > y_.high) continue;
      out += fmt::format(
          R"(<line class="grid" x1="{0}" x2="{1}" y1="{2:.1f}" y2="{2:.1f}"/><text class="tick" x="{3}" y="{4:.1f}" text-anchor="end">{5}</text>)",
          kLeft, right(), py(tick), kLeft - 8, py(tick) + 4, number(tick));
    }
    for (const double tick : volume::plot::round_ticks(x_.low, x_.high, style_.width / 110)) {
      if (tick < x_.low || tick > x_.high) continue;
      out += fmt::format(R"(<text class="tick" x="{:.1f}" y="{}" text-anchor="middle">{}</text>)",
                         px(tick), bottom() + 18, number(tick));
    }
    out += fmt::format(R"(<line class="axis" x1="{0}" x2="{1}" y1="{2}" y2="{2}"/>)", kLeft,
                       right(), bottom());
    return out + fmt::format(R"(<text class="note" x="{}" y="{}" text-anchor="end">{}</text>)",
                             right(), style_.height - 5, escape_html(style_.x_title));
  }

  std::string line(const Series& s) const {
    std::string path, dots;
    bool pen_down = false;
    for (size_t i = 0; i < s.x.size(); ++i) {
      if (!drawable(s.y[i])) {
        pen_down = false;
        continue;
      }
      path += fmt::format("{}{:.1f} {:.1f}", pen_down ? "L" : "M", px(s.x[i]), py(s.y[i]));
      if (s.dots)
        dots += fmt::format(R"(<circle class="dot {}" cx="{:.1f}" cy="{:.1f}" r="3.5"/>)", s.style,
                            px(s.x[i]), py(s.y[i]));
      pen_down = true;
    }
    return fmt::format(R"(<path class="line {}" d="{}"/>{})", s.style, path, dots);
  }

  std::string hover_data() const {
    nlohmann::ordered_json json;
    json["box"] = {kLeft, kTop, right(), bottom()};
    json["x"] = {x_.low, x_.high};
    json["y"] = {y_.low, y_.high};
    json["log"] = style_.log_y;
    json["xt"] = style_.x_title;
    json["unit"] = style_.unit;
    json["series"] = nlohmann::ordered_json::array();
    const auto rounded = [](const std::vector<double>& values) {
      auto out = nlohmann::ordered_json::array();
      for (const double v : values) {
        if (std::isfinite(v)) {
          out.push_back(std::stod(fmt::format("{:.5g}", v)));
        } else {
          out.push_back(nullptr);
        }
      }
      return out;
    };
    for (const Series& s : series_) {
      if (s.style == "faint") continue;
      json["series"].push_back(
          {{"label", s.label}, {"style", s.style}, {"x", rounded(s.x)}, {"y", rounded(s.y)}});
    }
    return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  }

  std::vector<Series> series_;
  SvgStyle style_;
  Range x_, y_;
  bool has_data_ = false;
};

}  // namespace

std::string svg_chart(const std::vector<Series>& series, const SvgStyle& style) {
  return Chart(series, style).svg();
}

void thin(std::vector<double>& x, std::vector<double>& y, size_t limit) {
  if (x.size() <= limit || limit < 4) return;
  const size_t stretches = limit / 2;
  std::vector<double> out_x, out_y;
  for (size_t s = 0; s < stretches; ++s) {
    const size_t first = s * x.size() / stretches, last = (s + 1) * x.size() / stretches;
    size_t low = first, high = first, gap = last;
    for (size_t i = first; i < last; ++i) {
      if (!std::isfinite(y[i])) {
        gap = i;
        continue;
      }
      if (!std::isfinite(y[low]) || y[i] < y[low]) low = i;
      if (!std::isfinite(y[high]) || y[i] > y[high]) high = i;
    }
    std::vector<size_t> keep = {low, high};
    if (gap != last) keep.push_back(gap);
    std::sort(keep.begin(), keep.end());
    keep.erase(std::unique(keep.begin(), keep.end()), keep.end());
    for (const size_t i : keep) {
      out_x.push_back(x[i]);
      out_y.push_back(y[i]);
    }
  }
  x = std::move(out_x);
  y = std::move(out_y);
}

std::vector<double> smooth(const std::vector<double>& y, double window) {
  // Sums and counts of all values before each, so that a mean is a difference.
  std::vector<double> sums(y.size() + 1), counts(y.size() + 1);
  for (size_t i = 0; i < y.size(); ++i) {
    const bool finite = std::isfinite(y[i]);
    sums[i + 1] = sums[i] + (finite ? y[i] : 0);
    counts[i + 1] = counts[i] + (finite ? 1 : 0);
  }
  const auto half = static_cast<size_t>(std::max(0.0, window / 2));
  std::vector<double> out;
  for (size_t i = 0; i < y.size(); ++i) {
    const size_t reach = std::min({half, i, y.size() - 1 - i});
    const size_t first = i - reach, end = i + reach + 1;
    const double count = counts[end] - counts[first];
    out.push_back(count > 0 ? (sums[end] - sums[first]) / count : y[i]);
  }
  return out;
}

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace craton::results
