#pragma once

#include <cstdint>
#include <vector>

#include "craton/volume/synth/layers.h"

namespace craton::volume::synth {

/// A buried river: a meandering line on the map that cuts into the layers below one horizon.
struct Channel {
  size_t layer = 0;        // its bank is this layer boundary
  double half_width = 10;  // traces
  double depth = 8;        // samples at the middle
  float fill = 1;          // reflectivity of its base
  std::vector<Place> line;
};

std::vector<Channel> make_channels(uint64_t seed, const std::vector<Layer>& layers,
                                   const Structure& structure, double width, double length);

/// The parts of a channel's line that can matter for traces within a rectangle.
class NearbyLine {
 public:
  NearbyLine(const Channel& channel, Place low, Place high);
  /// Distance of the line in half widths; large when far.
  double distance(Place p) const;

 private:
  double half_width_;
  std::vector<std::pair<Place, Place>> segments_;
};

}  // namespace craton::volume::synth
