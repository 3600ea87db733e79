#pragma once

#include "craton/volume/volume.h"

namespace craton::volume {

/// normalised = clamp((sample - mean) / deviation, -clip, clip); dead traces stay 0.
struct Normalisation {
  float mean = 0;
  float deviation = 1;
  float clip = 0;  ///< 0: no clamp

  float apply(float sample) const;
  float invert(float normalised) const { return normalised * deviation + mean; }
};

/// From the store's statistics; computed from at most 64 chunks, with a log line, when it has none.
/// Error when all samples are equal.
Normalisation normalisation_of(const Volume& volume, double clip_deviations);

}  // namespace craton::volume
