#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace craton::results {

/// A line of a chart. Values that are not finite (or not above 0 on a logarithmic axis) leave a
/// gap.
struct Series {
  std::string label;
  std::string
      style;  ///< CSS class: "one", "two", or "faint" (drawn behind, not in legend and tooltip)
  std::vector<double> x, y;  ///< ascending x
  bool dots = false;
};

/// A vertical line with a name that shows under the pointer.
struct ChartMark {
  double x = 0;
  std::string text;
  bool bad = false;
};

struct SvgStyle {
  std::string x_title, y_title;
  bool log_y = false;
  bool from_zero = false;  ///< the y axis starts at 0
  double at_least = 0;     ///< with from_zero, the y axis reaches up to this
  int width = 860, height = 320;
  std::optional<std::pair<double, std::string>>
      reference;  ///< a dashed horizontal line with its name
  std::vector<ChartMark> marks;
  std::string unit;  ///< behind numbers in tooltips
};

/// An SVG element that takes its colours from the page's style sheet, with the data of its tooltips
/// inside.
std::string svg_chart(const std::vector<Series>& series, const SvgStyle& style);

/// At most about `limit` points that keep each stretch's lowest and highest value, and gaps.
void thin(std::vector<double>& x, std::vector<double>& y, size_t limit);

/// Mean over about `window` values around each (fewer at the ends, as many on either side); values
/// that are not finite are passed over.
std::vector<double> smooth(const std::vector<double>& y, double window);

/// For text and attribute values of HTML.
std::string escape_html(std::string_view text);

}  // namespace craton::results
