#include "craton/volume/synth/layers.h"

#include <algorithm>

#include "craton/base/philox.h"
#include "craton/volume/synth/portable_math.h"

namespace craton::volume::synth {
namespace {

constexpr uint64_t kLayerStream = 10;
constexpr uint64_t kMapStream = 1000;  // + layer

// Thickness and strength of the layers of one package.
struct Package {
  double thickness, strength, lateral_change;
  int layers;
};

Package draw_package(const Philox& random, uint64_t& next) {
  static constexpr Package kKinds[] = {
      {2.3, 0.9, 0.35, 14},  // layered sand and shale
      {2.6, 0.4, 0.6, 9},    // shale
      {3.2, 1.25, 0.3, 6},   // carbonate, coal: strong and even
      {3.0, 0.75, 0.8, 9},   // patchy
  };
  Package package = kKinds[random.below(next++, 4)];
  package.layers += static_cast<int>(random.below(next++, 7)) - 3;
  package.thickness *= 0.75 + 0.6 * random.uniform(4 * next++);
  return package;
}

}  // namespace

std::vector<Layer> make_layers(uint64_t seed, const Structure& structure) {
  const Philox random(seed, RandomPurpose::kSynth, kLayerStream);
  uint64_t next = 0;  // blocks of the stream
  std::vector<Layer> layers;
  const double top = structure.rest_sea_floor();
  const double cut = structure.rest_unconformity();
  const double samples = structure.samples();
  // Thin surveys get thinner layers, so that a 64-sample volume still shows some.
  const double scale = std::clamp(samples / 200.0, 0.6, 1.5);
  layers.push_back({top, 2.2f, 0.1f, 0, false});
  double depth = top;
  // The lower sequence starts far above the cut: folds bring its layers there or take them away.
  for (const bool lower : {false, true}) {
    if (lower) depth = cut - 0.35 * samples;
    const double end = lower ? 1.4 * samples : cut - 0.006 * samples;
    while (depth < end) {
      const Package package = draw_package(random, next);
      for (int n = 0; n < package.layers && depth < end; ++n) {
        depth += package.thickness * scale * (0.45 + 1.1 * random.uniform(4 * next++));
        if (depth >= end) break;
        // Sum of uniforms: mostly middling, sometimes strong; the sign alternates more often than
        // not.
        const uint64_t b = 4 * next++;
        const double size = 0.4 + 1.6 * random.uniform(b) * random.uniform(b + 1);
        const double sign = ((n % 2 == 0) != (random.uniform(b + 2) < 0.25f)) ? 1 : -1;
        layers.push_back({depth,
                          static_cast<float>(sign * size * package.strength * (lower ? 1.9 : 2.3)),
                          static_cast<float>(package.lateral_change),
                          static_cast<float>(package.thickness * scale * 0.55), lower});
      }
    }
    if (!lower) layers.push_back({cut, 1.3f, 0.4f, 0, false});
  }
  return layers;
}

LateralMaps::LateralMaps(uint64_t seed, size_t layers, int64_t first_u, int64_t count_u,
                         int64_t first_v, int64_t count_v)
    : layers_(layers) {
  node_u_ = first_u / kSpacing;
  node_v_ = first_v / kSpacing;
  nodes_u_ = (first_u + count_u - 1) / kSpacing + 2 - node_u_;
  const int64_t nodes_v = (first_v + count_v - 1) / kSpacing + 2 - node_v_;
  nodes_.resize(static_cast<size_t>(nodes_u_ * nodes_v) * 2 * layers_);
  for (size_t layer = 0; layer < layers_; ++layer) {
    const Philox random(seed, RandomPurpose::kSynth, kMapStream + layer);
    for (int64_t v = 0; v < nodes_v; ++v) {
      for (int64_t u = 0; u < nodes_u_; ++u) {
        const auto words = random.block(static_cast<uint64_t>((node_v_ + v) << 32 | (node_u_ + u)));
        float* out = nodes_.data() + static_cast<size_t>(v * nodes_u_ + u) * 2 * layers_ + layer;
        out[0] = static_cast<float>(words[0] >> 8) * 0x1p-23f - 1;
        out[layers_] = static_cast<float>(words[1] >> 8) * 0x1p-23f - 1;
      }
    }
  }
}

const float* LateralMaps::node(int64_t nu, int64_t nv) const {
  return nodes_.data() +
         static_cast<size_t>((nv - node_v_) * nodes_u_ + (nu - node_u_)) * 2 * layers_;
}

void LateralMaps::at(int64_t u, int64_t v, std::span<float> depth,
                     std::span<float> brightness) const {
  const int64_t nu = u / kSpacing, nv = v / kSpacing;
  const double su = smooth_step(static_cast<double>(u % kSpacing) / kSpacing);
  const double sv = smooth_step(static_cast<double>(v % kSpacing) / kSpacing);
  const auto w00 = static_cast<float>((1 - su) * (1 - sv));
  const auto w01 = static_cast<float>(su * (1 - sv));
  const auto w10 = static_cast<float>((1 - su) * sv);
  const auto w11 = static_cast<float>(su * sv);
  const float *n00 = node(nu, nv), *n01 = node(nu + 1, nv);
  const float *n10 = node(nu, nv + 1), *n11 = node(nu + 1, nv + 1);
  for (size_t k = 0; k < layers_; ++k) {
    depth[k] = w00 * n00[k] + w01 * n01[k] + w10 * n10[k] + w11 * n11[k];
  }
  for (size_t k = 0, m = layers_; k < layers_; ++k, ++m) {
    brightness[k] = w00 * n00[m] + w01 * n01[m] + w10 * n10[m] + w11 * n11[m];
  }
}

}  // namespace craton::volume::synth
