#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace craton::volume::synth {

/// A place on the survey's map, in traces: u along crosslines or cdps, v along inlines.
struct Place {
  double u = 0, v = 0;
};

/// A map made of a few plane waves: cheap, smooth, and known everywhere.
struct WaveSum {
  struct Wave {
    double ku, kv, phase, amplitude;  // cycles per trace, turns
  };
  std::vector<Wave> waves;
  double at(Place p) const;
};

/// A normal fault: the side to which it dips is displaced downwards, most in the middle of its
/// length, less with distance.
struct Fault {
  double nu, nv;    // unit normal on the map
  double position;  // of the fault's trace along the normal, at the reference depth
  double along;     // middle of the fault along its strike
  double half_length;
  double bend;   // curvature of the strike
  double shift;  // traces that the fault moves along the normal per sample of depth
  double reference_depth;
  double throw_samples;
  double decay;  // traces over which the displacement fades on the hanging wall
  double top;    // depth share (of sea floor .. unconformity) where it dies out upwards
};

/// A salt stock: flat top, steep flanks, layers dragged up around it.
struct Salt {
  double u, v, radius, stretch, angle_cosine, angle_sine;
  double top, base;  // samples
  double uplift;     // of the layers above and beside it
};

/// What holds for all layers of one trace.
struct Column {
  double sea_floor = 0, unconformity = 0, fold = 0, tilt = 0;
  double salt_distance = 1e9;  // 1 at the flank
  double salt_top = 1e9, salt_base = -1e9;
  double uplift = 0;
};

/// The large structure of a survey: where a layer of a given rest depth lies at a place.
class Structure {
 public:
  /// `samples` deep, `width` x `length` traces (crosslines x inlines; length 1 in 2D).
  Structure(uint64_t seed, double samples, double width, double length);

  Column column(Place p) const;

  /// Displacement by faults of something at `depth`, downwards positive.
  double fault_throw(Place p, const Column& column, double depth) const;

  double rest_sea_floor() const { return rest_sea_floor_; }
  double rest_unconformity() const { return rest_unconformity_; }
  double samples() const { return samples_; }

 private:
  void add_folds(uint64_t seed, double extent);
  void add_faults(uint64_t seed, double width, double length);
  void add_salt(uint64_t seed, double width, double length);

  double samples_, rest_sea_floor_, rest_unconformity_;
  double dip_u_ = 0, dip_v_ = 0, middle_u_ = 0, middle_v_ = 0;
  WaveSum sea_relief_, cut_relief_, fold_, warp_;
  std::vector<Fault> faults_;
  std::vector<Salt> salts_;
};

}  // namespace craton::volume::synth
