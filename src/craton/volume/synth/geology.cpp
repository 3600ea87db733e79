#include "craton/volume/synth/geology.h"

#include <algorithm>
#include <cmath>

#include "craton/base/check.h"
#include "craton/base/error.h"
#include "craton/base/philox.h"
#include "craton/volume/synth/channel.h"
#include "craton/volume/synth/layers.h"
#include "craton/volume/synth/noise.h"
#include "craton/volume/synth/portable_math.h"
#include "craton/volume/synth/structure.h"
#include "craton/volume/synth/wavelet.h"

namespace craton::volume::synth {
namespace {

constexpr double kHighFrequency = 0.21, kLowFrequency = 0.07;  // cycles per sample, top and bottom
constexpr float kStrong = 1.1f;  // reflectivity from which a layer has a visible multiple
constexpr float kScale = 1.05f;  // brings the amplitudes to a standard deviation of about 1

const GeologyOptions& checked(const GeologyOptions& o) {
  if (o.shape.size() != 2 && o.shape.size() != 3) {
    fail(ErrorCode::kInvalidArgument,
         "a synthetic volume has 2 axes (cdp, time) or 3 (inline, crossline, time), not {}",
         o.shape.size());
  }
  for (const int64_t n : o.shape) {
    if (n < 8 || n > (1 << 20)) {
      fail(ErrorCode::kInvalidArgument, "shape: {} samples along an axis; expected 8 to {}", n,
           1 << 20);
    }
  }
  if (!(o.dead >= 0 && o.dead <= 0.9)) {
    fail(ErrorCode::kInvalidArgument, "dead: {} is no share of traces; expected 0 to 0.9", o.dead);
  }
  if (!(o.noise >= 0 && o.noise <= 10)) {
    fail(ErrorCode::kInvalidArgument, "noise: {}; expected 0 to 10", o.noise);
  }
  if (!(o.sample_interval_ms > 0 && o.sample_interval_ms <= 1000)) {
    fail(ErrorCode::kInvalidArgument, "sample interval: {} ms; expected more than 0, at most 1000",
         o.sample_interval_ms);
  }
  return o;
}

}  // namespace

struct SyntheticGeology::Model {
  explicit Model(GeologyOptions o)
      : options(std::move(o)),
        samples(static_cast<double>(options.shape.back())),
        width(static_cast<double>(options.shape[options.shape.size() - 2])),
        length(options.shape.size() == 3 ? static_cast<double>(options.shape[0]) : 1),
        structure(options.seed, samples, width, length),
        layers(make_layers(options.seed, structure)),
        channels(make_channels(options.seed, layers, structure, width, length)),
        wavelets(kLowFrequency * 0.9, kHighFrequency, 0.06),
        noise(options.seed, options.noise),
        dead(options.seed, options.dead, length <= 1) {}

  double frequency(double depth) const {
    const double share = std::clamp(depth / samples, 0.0, 1.0);
    return kHighFrequency + (kLowFrequency - kHighFrequency) * share * (1.6 - 0.6 * share);
  }

  GeologyOptions options;
  double samples, width, length;
  Structure structure;
  std::vector<Layer> layers;
  std::vector<Channel> channels;
  WaveletTable wavelets;
  Noise noise;
  DeadTraces dead;
};

namespace {

// Everything of one trace that does not depend on which samples are wanted.
struct TraceWork {
  std::vector<float> shift, brightness;  // per layer, from LateralMaps
  std::vector<double> depth;             // per layer
  std::vector<float> amplitude;          // per layer, 0: not there
};

// Depth of a layer before salt and faults: the upper sequence lies between sea floor and
// unconformity in proportion, the lower one is folded and tilted, the more the deeper.
double folded_depth(const Layer& layer, const Column& c, const Structure& s) {
  if (!layer.lower) {
    const double share =
        (layer.rest_depth - s.rest_sea_floor()) / (s.rest_unconformity() - s.rest_sea_floor());
    return c.sea_floor + (c.unconformity - c.sea_floor) * share;
  }
  const double share = layer.rest_depth / s.samples();
  return layer.rest_depth + c.fold * (0.55 + 0.6 * share) + c.tilt;
}

}  // namespace

SyntheticGeology::SyntheticGeology(GeologyOptions options)
    : model_(std::make_unique<Model>(checked(options))) {}
SyntheticGeology::~SyntheticGeology() = default;

const GeologyOptions& SyntheticGeology::options() const { return model_->options; }

std::vector<Axis> SyntheticGeology::axes() const {
  const auto& shape = model_->options.shape;
  const auto axis = [](const char* name, const char* unit, int64_t n, double first, double step) {
    Axis a{name, unit, {}};
    for (int64_t k = 0; k < n; ++k) a.coordinates.push_back(first + step * static_cast<double>(k));
    return a;
  };
  std::vector<Axis> axes;
  if (shape.size() == 3) {
    axes.push_back(axis("inline", "", shape[0], 1000, 1));
    axes.push_back(axis("crossline", "", shape[1], 2000, 1));
  } else {
    axes.push_back(axis("cdp", "", shape[0], 1, 1));
  }
  axes.push_back(axis("time", "ms", shape.back(), 0, model_->options.sample_interval_ms));
  return axes;
}

namespace {

struct ChannelCut {
  double depth = 0, base = 0;  // of its bank and floor; none when equal
  float fill = 0;
};

// The layers of one trace: where they are and how bright.
class TraceBuilder {
 public:
  TraceBuilder(const Structure& structure, const std::vector<Layer>& layers,
               const std::vector<Channel>& channels)
      : structure_(structure), layers_(layers), channels_(channels) {
    work_.shift.resize(layers.size());
    work_.brightness.resize(layers.size());
    work_.depth.resize(layers.size());
    work_.amplitude.resize(layers.size());
  }

  void build(Place p, int64_t u, int64_t v, const LateralMaps& maps,
             const std::vector<NearbyLine>& lines) {
    column_ = structure_.column(p);
    maps.at(u, v, work_.shift, work_.brightness);
    for (size_t k = 0; k < layers_.size(); ++k) place_layer(p, k);
    cuts_.clear();
    for (size_t n = 0; n < channels_.size(); ++n) cut_channel(channels_[n], lines[n].distance(p));
  }

  const Column& column() const { return column_; }
  const TraceWork& work() const { return work_; }
  const std::vector<ChannelCut>& cuts() const { return cuts_; }

 private:
  void place_layer(Place p, size_t k) {
    const Layer& layer = layers_[k];
    const double samples = structure_.samples();
    double z = folded_depth(layer, column_, structure_) + layer.undulation * work_.shift[k];
    // Truncation happened before the faults and the salt moved.
    const bool truncated = layer.lower && z < column_.unconformity + 1;
    const double burial = std::clamp((z - column_.sea_floor) / (0.45 * samples), 0.0, 1.0);
    z -= column_.uplift * burial;
    z += structure_.fault_throw(p, column_, z);
    z = std::max(z, column_.sea_floor);
    float amplitude = layer.reflectivity * (1 + layer.lateral_change * 1.2f * work_.brightness[k]);
    if (truncated) amplitude = 0;
    if (z > column_.salt_top && z < column_.salt_base) amplitude *= 0.06f;
    if (z >= column_.salt_base && column_.salt_distance < 1) amplitude *= 0.45f;
    work_.depth[k] = z;
    work_.amplitude[k] = amplitude * static_cast<float>(1 - 0.25 * std::min(z / samples, 1.0));
  }

  void cut_channel(const Channel& channel, double distance) {
    if (distance >= 1.25) return;
    const double bank = work_.depth[channel.layer];
    // Compaction: the layers above a sand-filled channel drape over it.
    const double drape = 0.12 * channel.depth * (1 - smooth_step(distance / 1.25));
    const double profile = distance < 1 ? channel.depth * (1 - distance * distance) : 0;
    for (size_t k = 0; k < layers_.size(); ++k) {
      const double above = bank - work_.depth[k];
      if (above > 0 && above < 40 && !layers_[k].lower) work_.depth[k] -= drape * (1 - above / 40);
      if (above < -0.5 && above > -profile) work_.amplitude[k] *= 0.1f;
    }
    if (profile > 0.5) cuts_.push_back({bank, bank + profile, channel.fill});
  }

  const Structure& structure_;
  const std::vector<Layer>& layers_;
  const std::vector<Channel>& channels_;
  Column column_;
  TraceWork work_;
  std::vector<ChannelCut> cuts_;
};

// Signal of one trace for samples [first, first + trace.size()).
template <typename Model>
void add_signal(const Model& m, const TraceBuilder& built, int64_t first, std::span<float> trace) {
  const auto add = [&](double depth, float amplitude) {
    if (amplitude != 0) m.wavelets.add(trace, first, depth, m.frequency(depth), amplitude * kScale);
  };
  const TraceWork& work = built.work();
  const Column& column = built.column();
  for (size_t k = 0; k < m.layers.size(); ++k) {
    const float a = work.amplitude[k];
    add(work.depth[k], a);
    // First multiple in the water layer.
    if (a > kStrong || a < -kStrong) add(work.depth[k] + column.sea_floor, -0.16f * a);
  }
  for (const ChannelCut& cut : built.cuts()) {
    add(cut.depth + 0.5, -0.5f * cut.fill);
    add(cut.base, cut.fill);
  }
  if (column.salt_distance < 1) {
    const float edge =
        static_cast<float>(1 - 0.7 * smooth_step((column.salt_distance - 0.7) / 0.3));
    add(column.salt_top, 3.2f * edge);
    add(column.salt_base, -2.0f * edge);
  }
}

}  // namespace

void SyntheticGeology::generate(std::span<const int64_t> origin, std::span<const int64_t> shape,
                                std::span<float> out, std::span<uint8_t> live) const {
  const Model& m = *model_;
  const size_t rank = m.options.shape.size();
  CRATON_CHECK(origin.size() == rank && shape.size() == rank);
  for (size_t d = 0; d < rank; ++d) {
    CRATON_CHECK(origin[d] >= 0 && shape[d] > 0 && origin[d] + shape[d] <= m.options.shape[d]);
  }
  const int64_t first_v = rank == 3 ? origin[0] : 0, count_v = rank == 3 ? shape[0] : 1;
  const int64_t first_u = origin[rank - 2], count_u = shape[rank - 2];
  const int64_t first = origin[rank - 1], count = shape[rank - 1];
  CRATON_CHECK(out.size() == static_cast<size_t>(count_v * count_u * count));
  CRATON_CHECK(live.size() == static_cast<size_t>(count_v * count_u));

  const LateralMaps maps(m.options.seed, m.layers.size(), first_u, count_u, first_v, count_v);
  std::vector<NearbyLine> lines;
  for (const Channel& channel : m.channels) {
    lines.emplace_back(channel, Place{double(first_u), double(first_v)},
                       Place{double(first_u + count_u), double(first_v + count_v)});
  }
  TraceBuilder builder(m.structure, m.layers, m.channels);
  const double train_frequency = 0.8 * kLowFrequency + 0.2 * kHighFrequency;
  for (int64_t n = 0; n < count_v * count_u; ++n) {
    const int64_t v = first_v + n / count_u, u = first_u + n % count_u;
    const std::span<float> trace =
        out.subspan(static_cast<size_t>(n * count), static_cast<size_t>(count));
    std::fill(trace.begin(), trace.end(), 0.0f);
    live[static_cast<size_t>(n)] = m.dead.dead(u, v) ? 0 : 1;
    if (!live[static_cast<size_t>(n)]) continue;
    builder.build({double(u), double(v)}, u, v, maps, lines);
    add_signal(m, builder, first, trace);
    m.noise.add(trace, u, v, first, m.wavelets, train_frequency);
    const float gain = m.noise.trace_gain(u, v);
    for (float& sample : trace) sample *= gain;
  }
}

}  // namespace craton::volume::synth
