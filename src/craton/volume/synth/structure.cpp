#include "craton/volume/synth/structure.h"

#include <algorithm>
#include <cmath>

#include "craton/base/philox.h"
#include "craton/volume/synth/portable_math.h"

namespace craton::volume::synth {
namespace {

enum Stream : uint64_t { kFolds = 1, kFaults = 2, kSalt = 3 };

// Draws one number after the other from a stream.
class Draw {
 public:
  Draw(uint64_t seed, Stream stream) : philox_(seed, RandomPurpose::kSynth, stream) {}
  double between(double low, double high) { return low + (high - low) * philox_.uniform(next_++); }
  double sign() { return philox_.uniform(next_++) < 0.5f ? -1 : 1; }

 private:
  Philox philox_;
  uint64_t next_ = 0;
};

WaveSum waves_of(Draw& draw, int count, double shortest, double longest, double amplitude,
                 double direction_turns, double spread_turns) {
  WaveSum sum;
  for (int n = 0; n < count; ++n) {
    const double length = draw.between(shortest, longest);
    const double direction = direction_turns + draw.between(-spread_turns, spread_turns);
    sum.waves.push_back({cosine_of_turns(direction) / length, sine_of_turns(direction) / length,
                         draw.between(0, 1), amplitude * draw.between(0.5, 1) / count});
  }
  return sum;
}

}  // namespace

double WaveSum::at(Place p) const {
  double sum = 0;
  for (const Wave& w : waves) {
    sum += w.amplitude * sine_of_turns(w.ku * p.u + w.kv * p.v + w.phase);
  }
  return sum;
}

Structure::Structure(uint64_t seed, double samples, double width, double length)
    : samples_(samples) {
  middle_u_ = width / 2;
  middle_v_ = length / 2;
  const double extent = std::clamp(std::max(width, length), 96.0, 700.0);
  add_folds(seed, extent);
  add_faults(seed, width, length);
  add_salt(seed, width, length);
}

void Structure::add_folds(uint64_t seed, double extent) {
  Draw draw(seed, kFolds);
  rest_sea_floor_ = samples_ * draw.between(0.05, 0.1);
  rest_unconformity_ = samples_ * draw.between(0.38, 0.52);
  // Slopes stay below about one sample per trace, so amplitudes follow the lateral size as well as
  // the depth.
  const double relief = std::min(samples_ * 0.22, extent * 0.22);
  const double axis = draw.between(-0.07, 0.07);
  sea_relief_ = waves_of(draw, 3, 0.4 * extent, 1.2 * extent, 0.09 * relief, axis, 0.25);
  cut_relief_ = waves_of(draw, 4, 0.3 * extent, 1.1 * extent, 0.4 * relief, axis, 0.2);
  fold_ = waves_of(draw, 4, 0.42 * extent, 0.95 * extent, 1.6 * relief, axis, 0.05);
  warp_ = waves_of(draw, 3, 0.3 * extent, 0.8 * extent, 0.12 * extent, 0.25 + axis, 0.1);
  dip_u_ = draw.sign() * draw.between(0.1, 0.5) * relief / extent;
  dip_v_ = draw.between(-0.3, 0.3) * relief / extent;
}

void Structure::add_faults(uint64_t seed, double width, double length) {
  Draw draw(seed, kFaults);
  const double extent = std::clamp(std::max(width, length), 96.0, 700.0);
  const double area = width * std::max(length, width / 4);
  const int count = std::clamp(static_cast<int>(5 + area / 40000), 5, 60);
  const double strike = draw.between(-0.06, 0.06);
  for (int n = 0; n < count; ++n) {
    Fault f;
    const double direction = strike + draw.between(-0.05, 0.05);
    const double facing = draw.between(0, 1) < 0.7 ? 1 : -1;
    f.nu = facing * cosine_of_turns(direction);
    f.nv = facing * sine_of_turns(direction);
    // Spread over the survey, one per stretch, so that they do not all fall in one corner.
    const Place middle = {width * (n + draw.between(0.1, 0.9)) / count,
                          length * draw.between(0.1, 0.9)};
    f.position = f.nu * middle.u + f.nv * middle.v;
    f.along = -f.nv * middle.u + f.nu * middle.v;
    f.half_length = std::max(0.35 * extent, length > 1 ? 20.0 : 1e6) * draw.between(0.7, 1.6);
    if (length <= 1) f.half_length = 1e6;
    f.bend = draw.between(-0.12, 0.12) / std::min(f.half_length, extent);
    f.shift = std::min(draw.between(0.25, 0.6), 0.45 * extent / samples_);
    f.reference_depth = samples_ * 0.6;
    f.throw_samples = samples_ * draw.between(0.015, 0.055);
    f.decay = extent * draw.between(0.25, 0.6);
    f.top = draw.between(0, 1) < 0.3 ? draw.between(0.15, 0.5) : draw.between(0.7, 1.0);
    faults_.push_back(f);
  }
}

void Structure::add_salt(uint64_t seed, double width, double length) {
  Draw draw(seed, kSalt);
  const double extent = std::clamp(std::max(width, length), 96.0, 700.0);
  const double area = width * std::max(length, width / 4);
  const int count = std::clamp(static_cast<int>(std::lround(area / 360000)), 1, 24);
  for (int n = 0; n < count; ++n) {
    Salt s;
    s.u = width * draw.between(0.15, 0.85);
    s.v = length * draw.between(0.2, 0.8);
    if (length <= 1) s.v = 0;
    s.radius = extent * draw.between(0.11, 0.17);
    s.stretch = draw.between(0.65, 0.95);
    const double angle = draw.between(0, 0.5);
    s.angle_cosine = cosine_of_turns(angle);
    s.angle_sine = sine_of_turns(angle);
    s.top = samples_ * draw.between(0.4, 0.58);
    s.base = samples_ * draw.between(0.86, 0.95);
    s.uplift = samples_ * draw.between(0.07, 0.12);
    salts_.push_back(s);
  }
}

Column Structure::column(Place p) const {
  Column c;
  const double warp = warp_.at(p);
  const Place bent = {p.u + warp, p.v};
  c.sea_floor = std::max(3.0, rest_sea_floor_ + sea_relief_.at(p));
  c.unconformity = rest_unconformity_ + cut_relief_.at(bent);
  c.unconformity = std::max(c.unconformity, c.sea_floor + 0.12 * samples_);
  c.fold = fold_.at(bent);
  c.tilt = dip_u_ * (p.u - middle_u_) + dip_v_ * (p.v - middle_v_);
  for (const Salt& s : salts_) {
    const double du = p.u - s.u + 0.25 * warp, dv = p.v - s.v - 0.2 * warp;
    const double a = (du * s.angle_cosine + dv * s.angle_sine) / s.radius;
    const double b = (dv * s.angle_cosine - du * s.angle_sine) / (s.radius * s.stretch);
    const double square = a * a + b * b;
    const double distance = std::sqrt(square);
    // Drag: full over the body, a rim of it outside, and a shallow rim syncline where the salt was
    // drawn from.
    const double outside = std::max(0.0, distance - 0.75);
    c.uplift += s.uplift * (exponential(-3.2 * outside * outside) -
                            0.3 * exponential(-4 * (distance - 2) * (distance - 2)));
    if (distance < c.salt_distance) {
      c.salt_distance = distance;
      if (distance < 1) {
        const double fourth = square * square;
        c.salt_top = s.top + (s.base - s.top) * fourth * fourth;
        c.salt_base = s.base;
      }
    }
  }
  return c;
}

double Structure::fault_throw(Place p, const Column& column, double depth) const {
  const double level = (depth - column.sea_floor) / (column.unconformity - column.sea_floor);
  double sum = 0;
  for (const Fault& f : faults_) {
    const double upward = smooth_step((level - f.top) * 2.5 + 0.1);
    if (upward <= 0) continue;
    const double along = (-f.nv * p.u + f.nu * p.v) - f.along;
    const double share = along / f.half_length;
    if (share * share >= 1) continue;
    const double below = depth - f.reference_depth;
    const double side =
        f.nu * p.u + f.nv * p.v - f.position - f.bend * along * share * 0.5 - f.shift * below;
    if (side <= 0) continue;
    const double ellipse = 1 - share * share;
    const double far = side / f.decay;
    sum += f.throw_samples * ellipse * upward / (1 + far + 0.5 * far * far);
  }
  return sum;
}

}  // namespace craton::volume::synth
