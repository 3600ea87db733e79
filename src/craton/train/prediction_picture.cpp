#include "craton/train/prediction_picture.h"

#include <algorithm>
#include <cmath>

#include "craton/volume/plot/view.h"

namespace craton::train {
namespace {

namespace plot = volume::plot;

constexpr double kPercentile = 98;
constexpr int64_t kSmallestSide = 320, kLargestSide = 700;

/// Pixels for so many cells: whole multiples of small sizes.
int pixels(int64_t cells) {
  const int64_t zoom = std::max<int64_t>(1, (kSmallestSide + cells - 1) / cells);
  return static_cast<int>(std::min(cells * zoom, kLargestSide));
}

plot::Image draw(const plot::Section& section, const std::string& title,
                 const plot::ColorScale& scale) {
  plot::ChartStyle style;
  style.title = title;
  style.across = section.across_labels;
  style.down = section.down_labels;
  style.width = pixels(section.columns);
  style.height = pixels(section.rows);
  return plot::draw_chart(section.raster(), scale, style);
}

}  // namespace

plot::Image prediction_picture(const volume::Volume& input, const volume::Volume& output,
                               int64_t row) {
  std::vector<plot::Place> places;
  if (input.info().axes.size() == 3) {
    const volume::Axis& axis = input.info().axes[0];
    places.emplace_back(axis.name, axis.coordinates[static_cast<size_t>(row)]);
  }
  const plot::Section before = plot::read_section(input, places);
  const plot::Section after = plot::read_section(output, places);
  plot::Section difference = after;
  for (size_t n = 0; n < difference.values.size(); ++n) {
    const auto or_zero = [](float v) { return std::isnan(v) ? 0.0f : v; };
    difference.values[n] = or_zero(after.values[n]) - or_zero(before.values[n]);
  }
  const auto scale =
      plot::ColorScale::symmetric(before.values, kPercentile, plot::ColorMap::kSeismic);
  const plot::Image panels[] = {draw(before, before.title, scale), draw(after, "filled", scale),
                                draw(difference, "difference", scale)};
  int width = 0, height = 0;
  for (const plot::Image& panel : panels) {
    width += panel.width();
    height = std::max(height, panel.height());
  }
  plot::Image picture(width, height);
  int x = 0;
  for (const plot::Image& panel : panels) {
    picture.paste(panel, x, 0);
    x += panel.width();
  }
  return picture;
}

}  // namespace craton::train
