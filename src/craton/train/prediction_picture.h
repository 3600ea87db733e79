#pragma once

#include <vector>

#include "craton/volume/plot/raster.h"
#include "craton/volume/volume.h"

namespace craton::train {

/// A section of a volume, of what a prediction made of it, and their difference, side by side on
/// one colour scale; dead traces are grey, and 0 in the difference. `row` is the place on the first
/// axis of a 3D volume.
volume::plot::Image prediction_picture(const volume::Volume& input, const volume::Volume& output,
                                       int64_t row);

}  // namespace craton::train
