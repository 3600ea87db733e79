#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "craton/volume/plot/chart.h"

namespace craton::results {

/// One picture of a figure.
struct Panel {
  std::string label;
  std::vector<std::byte> png;
};

/// Pictures that are shown side by side.
struct Figure {
  enum class Kind { kSection, kReconstruction };
  Kind kind = Kind::kSection;
  std::string title, caption;
  std::vector<Panel> panels;
};

/// A window (or one slice of it) as the model sees it, all arrays [traces][samples] in normalised
/// amplitudes.
struct ReconstructionWindow {
  std::string title, caption;
  int64_t traces = 0, samples = 0;
  std::vector<float> input;  ///< NaN where hidden from the model
  std::vector<float> reconstruction;
  std::vector<float> truth;
};

/// Masked input, reconstruction, truth and difference on one colour scale, time downwards. Error
/// when the sizes do not fit.
Figure reconstruction_figure(const ReconstructionWindow& window);

/// A section with boxes over it, e.g. the windows that the model sees; `section` has rows of time.
/// See plot::draw_chart.
Figure section_figure(std::string title, std::string caption, const volume::plot::Raster& section,
                      const volume::plot::ChartStyle& style);

/// Keeps figures as PNG files with an index in `folder` (made when missing), so that another
/// process may show them.
void save_figures(const std::filesystem::path& folder, const std::vector<Figure>& figures);
/// Empty when there are none; kCorrupt when the index cannot be read.
std::vector<Figure> load_figures(const std::filesystem::path& folder);

}  // namespace craton::results
