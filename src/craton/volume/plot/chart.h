#pragma once

#include <span>
#include <string>
#include <vector>

#include "craton/volume/plot/color_scale.h"
#include "craton/volume/plot/raster.h"

namespace craton::volume::plot {

/// A view of a float array, rows from the top. Not owned.
struct Raster {
  std::span<const float> values;  // [rows][columns]
  int64_t rows = 0, columns = 0;
};

/// Numbers along one side: position p (in cells, first cell's middle at 0) has the value start + p
/// * step.
struct AxisLabels {
  std::string title;
  double start = 0, step = 1;
};

/// A labelled rectangle over the data, in cells.
struct Box {
  double column = 0, row = 0, columns = 0, rows = 0;
  std::string label;
  Color color = kBlack;
};

struct ChartStyle {
  std::string title;
  AxisLabels across, down;
  std::string value_title;  ///< beside the colour bar
  bool color_bar = true;
  bool counts = false;      ///< whole numbers: nothing between them beside the colour bar
  int width = 0, height = 0;  ///< of the data area in pixels; 0: chosen, between 240 and 1600
  std::vector<Box> boxes;
};

/// The array as pixels without any frame; averages cells when it shrinks, so that nothing aliases;
/// repeats them when it grows.
Image render(const Raster& raster, const ColorScale& scale, int width, int height);

/// The array with title, axes, boxes and colour bar.
Image draw_chart(const Raster& raster, const ColorScale& scale, const ChartStyle& style);

struct Curve {
  std::vector<double> x, y;  // ascending x
  Color color = kBlack;
  std::string label;
};

/// Lines over common axes, e.g. a spectrum.
Image draw_curves(std::span<const Curve> curves, const ChartStyle& style);

/// About `count` round numbers that cover low..high: 1, 2 or 5 times a power of ten apart.
std::vector<double> round_ticks(double low, double high, int count);

}  // namespace craton::volume::plot
