#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "craton/volume/plot/chart.h"
#include "craton/volume/volume.h"

namespace craton::volume::plot {

/// Two free axes of a volume at fixed places of all others. Dead traces are NaN.
struct Section {
  std::vector<float> values;  ///< [rows][columns]
  int64_t rows = 0, columns = 0;
  size_t down = 0, across = 0;  ///< volume axes; `down` is the sample axis except in slices
  std::string title;            ///< e.g. "f3, inline 1024"
  AxisLabels down_labels, across_labels;
  bool counts = false;  ///< the values are whole numbers
  Raster raster() const { return {values, rows, columns}; }
};

/// The last part of the volume's address, for titles.
std::string volume_title(const Volume& volume);

/// A place on an axis, by the axis' name and coordinate, e.g. {"inline", 1024}.
using Place = std::pair<std::string, double>;

/// The section, gather or slice at these places. Axes beyond two that are not named are fixed in
/// their middle: offset or angle first, then inline, crossline. Error names the axes or the range
/// when a place does not exist.
Section read_section(const Volume& volume, const std::vector<Place>& places);

/// Per trace of the first two lateral axes (one row for a line). All NaN-free.
Section live_map(const Volume& volume);
/// Live traces of each gather; of a stacked volume the same as the live map.
Section fold_map(const Volume& volume);
/// Root mean square of the samples of each live trace, NaN for dead ones; reads the whole volume
/// once, chunk by chunk, on `threads` threads. A gather's traces count as one.
Section amplitude_map(const Volume& volume, size_t threads);

/// Mean amplitude spectrum of up to 256 live traces spread over the volume, with its maximum at 0
/// dB. x in Hz when the axis is in ms, in cycles per unit otherwise.
Curve spectrum(const Volume& volume);
std::string spectrum_axis(const Volume& volume);

/// Context windows [traces x samples] centred on a section of this size; larger ones are left out
/// and told by `skipped`.
struct WindowBoxes {
  std::vector<Box> boxes;
  std::vector<std::string> skipped;
};
WindowBoxes window_boxes(const std::vector<std::pair<int64_t, int64_t>>& windows, int64_t rows,
                         int64_t columns);
/// "256x256,512x512" -> {{256, 256}, {512, 512}}; traces first. Error shows the part that is no
/// window.
std::vector<std::pair<int64_t, int64_t>> parse_windows(std::string_view text);

/// A section with a colour scale that suits it, ready to be written.
Image draw_section(const Section& section, const ColorScale& scale, std::vector<Box> boxes = {});

}  // namespace craton::volume::plot
