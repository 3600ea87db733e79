#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "craton/volume/synth/structure.h"

namespace craton::volume::synth {

struct Layer {
  double rest_depth;     // samples, before folding
  float reflectivity;    // typical size 1
  float lateral_change;  // how much the amplitude varies along the layer, 0..1
  float undulation;      // samples
  bool lower;            // below the unconformity
};

/// Layer boundaries from the sea floor downwards, in packages: quiet shales, layered sands, a few
/// strong markers.
std::vector<Layer> make_layers(uint64_t seed, const Structure& structure);

/// Smooth random maps, two per layer, for one block of traces: what makes layers thicken, thin and
/// change in brightness. Lattice nodes are random numbers of (seed, layer, node), so neighbouring
/// blocks agree.
class LateralMaps {
 public:
  /// Traces [first_u, first_u + count_u) x [first_v, first_v + count_v).
  LateralMaps(uint64_t seed, size_t layers, int64_t first_u, int64_t count_u, int64_t first_v,
              int64_t count_v);

  /// Values in [-1, 1], one per layer.
  void at(int64_t u, int64_t v, std::span<float> depth, std::span<float> brightness) const;

 private:
  const float* node(int64_t nu, int64_t nv) const;
  static constexpr int64_t kSpacing = 36;
  size_t layers_;
  int64_t node_u_, node_v_, nodes_u_;
  std::vector<float> nodes_;  // [nv][nu][2][layers]
};

}  // namespace craton::volume::synth
