#include "craton/volume/synth/channel.h"

#include <algorithm>
#include <cmath>

#include "craton/base/philox.h"
#include "craton/volume/synth/portable_math.h"

namespace craton::volume::synth {
namespace {

constexpr uint64_t kChannelStream = 20;
constexpr double kStep = 2;  // traces between points of a line

// Sine-generated curve (Langbein and Leopold, 1966): the direction of a meander swings like a sine
// along its length.
std::vector<Place> meander(const Philox& random, double width, double length, double bend_length) {
  std::vector<Place> line;
  const double extent = std::max(width, length);
  const double swing = 0.17 + 0.08 * random.uniform(0);  // turns
  const double drift = (random.uniform(1) - 0.5) * 0.12;
  const double phase = random.uniform(2), slow = random.uniform(3);
  const bool along_u = length > 1 && random.uniform(4) < 0.4f;
  Place p = along_u ? Place{-60, length * (0.25 + 0.5 * random.uniform(5))}
                    : Place{width * (0.2 + 0.6 * random.uniform(5)), -60};
  const double far = (along_u ? width : length) + 60;
  const auto limit = static_cast<int64_t>(6 * (extent + 200) / kStep);
  for (int64_t n = 0; n < limit && (along_u ? p.u : p.v) < far; ++n) {
    line.push_back(p);
    const double s = static_cast<double>(n) * kStep;
    const double growth = 0.75 + 0.35 * sine_of_turns(s / (4.3 * bend_length) + slow);
    const double direction = drift + swing * growth * sine_of_turns(s / bend_length + phase) +
                             0.06 * sine_of_turns(s / (5.1 * bend_length) + 2 * slow);
    const double ahead = kStep * cosine_of_turns(direction);
    const double aside = kStep * sine_of_turns(direction);
    p.u += along_u ? ahead : aside;
    p.v += along_u ? aside : ahead;
  }
  return line;
}

}  // namespace

std::vector<Channel> make_channels(uint64_t seed, const std::vector<Layer>& layers,
                                   const Structure& structure, double width, double length) {
  std::vector<Channel> channels;
  const double extent = std::clamp(std::max(width, length), 96.0, 700.0);
  const int count = 2 + static_cast<int>(std::min(std::max(width, length) / 600, 6.0));
  for (int n = 0; n < count; ++n) {
    const Philox random(seed, RandomPurpose::kSynth, kChannelStream, static_cast<uint32_t>(n));
    Channel channel;
    const double span = structure.rest_unconformity() - structure.rest_sea_floor();
    const double wanted =
        structure.rest_sea_floor() + span * (0.3 + 0.6 * (n + random.uniform(8)) / count);
    for (size_t k = 0; k < layers.size() && !layers[k].lower; ++k) {
      if (layers[k].rest_depth <= wanted) channel.layer = k;
    }
    channel.half_width = std::clamp(extent * (0.018 + 0.02 * random.uniform(9)), 3.0, 14.0);
    channel.depth =
        std::clamp(structure.samples() * (0.025 + 0.02 * random.uniform(10)), 4.0, 14.0);
    channel.fill = 1.2f + random.uniform(11);
    channel.line =
        meander(random, width, length, channel.half_width * (13 + 6 * random.uniform(12)));
    channels.push_back(std::move(channel));
  }
  return channels;
}

NearbyLine::NearbyLine(const Channel& channel, Place low, Place high)
    : half_width_(channel.half_width) {
  const double margin = 1.5 * half_width_ + kStep;
  const auto near = [&](Place p) {
    return p.u >= low.u - margin && p.u <= high.u + margin && p.v >= low.v - margin &&
           p.v <= high.v + margin;
  };
  for (size_t n = 0; n + 1 < channel.line.size(); ++n) {
    if (near(channel.line[n]) || near(channel.line[n + 1])) {
      segments_.emplace_back(channel.line[n], channel.line[n + 1]);
    }
  }
}

double NearbyLine::distance(Place p) const {
  double nearest = 1e18;
  for (const auto& [a, b] : segments_) {
    const double du = b.u - a.u, dv = b.v - a.v;
    const double t = std::clamp(((p.u - a.u) * du + (p.v - a.v) * dv) / (kStep * kStep), 0.0, 1.0);
    const double eu = p.u - a.u - t * du, ev = p.v - a.v - t * dv;
    nearest = std::min(nearest, eu * eu + ev * ev);
  }
  return std::sqrt(nearest) / half_width_;
}

}  // namespace craton::volume::synth
