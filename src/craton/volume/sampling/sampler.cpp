#include "craton/volume/sampling/sampler.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "craton/base/check.h"
#include "craton/base/error.h"
#include "craton/base/log.h"
#include "craton/base/philox.h"
#include "craton/base/units.h"
#include "craton/volume/sampling/pass_plan.h"

namespace craton::volume {
namespace {

std::string times(std::span<const int64_t> shape) {
  return fmt::format("{}", fmt::join(shape, "x"));
}

void check_settings(const SamplerSettings& s) {
  if (s.window.size() != 2 && s.window.size() != 3) {
    fail(ErrorCode::kInvalidArgument,
         "window: {} numbers; expected 2 (traces, samples) or 3 (inline, crossline, samples)",
         s.window.size());
  }
  if (!s.stride.empty() && s.stride.size() != s.window.size()) {
    fail(ErrorCode::kInvalidArgument, "stride: {} numbers for a window of {}", s.stride.size(),
         s.window.size());
  }
  for (const int64_t n : s.window) {
    if (n < 1) fail(ErrorCode::kInvalidArgument, "window: {} is no number of samples", n);
  }
  for (const int64_t n : s.stride) {
    if (n < 1) fail(ErrorCode::kInvalidArgument, "stride: {} is no distance between windows", n);
  }
  const auto within = [](const char* name, double value, double low, double high) {
    if (!(value >= low && value <= high))
      fail(ErrorCode::kInvalidArgument, "{}: {}; expected {} to {}", name, value, low, high);
  };
  within("validation fraction", s.validation_fraction, 0, 0.5);
  within("validation count", static_cast<double>(s.validation_count), 0, 1e6);
  within("dead fraction limit", s.dead_fraction_limit, 0, 1);
  within("clip", s.clip_deviations, 0, 1e6);
  within("gain", s.augmentation.gain, 0, 0.99);
  within("noise", s.augmentation.noise, 0, 100);
  if (s.sections != "both" && s.sections != "inline" && s.sections != "crossline") {
    fail(ErrorCode::kInvalidArgument, "sections: '{}'; expected inline, crossline or both",
         s.sections);
  }
}

// The ways in which a window lies in a volume of this rank.
std::vector<Orientation> orientations_for(const SamplerSettings& s,
                                          const std::vector<int64_t>& window, size_t rank) {
  std::vector<int64_t> stride = s.stride;
  if (stride.empty()) {
    for (const int64_t n : window) stride.push_back(std::max<int64_t>(1, n / 2));
  }
  if (window.size() == rank) {
    Orientation o{{}, window, stride};
    for (size_t d = 0; d < rank; ++d) o.axes.push_back(static_cast<int32_t>(d));
    return {o};
  }
  std::vector<Orientation> both;
  if (s.sections != "crossline")
    both.push_back({{1, 2}, {1, window[0], window[1]}, {1, stride[0], stride[1]}});
  if (s.sections != "inline")
    both.push_back({{0, 2}, {window[0], 1, window[1]}, {stride[0], 1, stride[1]}});
  return both;
}

std::string name_of(const Volume& volume) {
  return fmt::format("{} ({})", volume.info().name, volume.info().uri);
}

// The last part of where it lies: names in stores are those of templates.
std::string short_name(const Volume& volume) {
  const std::string stem = std::filesystem::path(volume.info().uri).stem().string();
  return stem.empty() ? volume.info().name : stem;
}

// The orientations that fit; Error when none does.
std::vector<Orientation> fitting(const SamplerSettings& s, const std::vector<int64_t>& window,
                                 const Volume& volume) {
  const std::vector<int64_t> shape = volume.info().shape();
  if (shape.size() < window.size() || shape.size() > 3) {
    fail(ErrorCode::kInvalidArgument,
         "volume {} has {} axes; a window of {} needs a volume of {}; leave the volume out or "
         "change `window`",
         name_of(volume), shape.size(), times(window),
         window.size() == 3 ? "3 axes" : "2 or 3 axes");
  }
  const Box all{std::vector<int64_t>(shape.size(), 0), shape};
  std::vector<Orientation> out;
  for (const Orientation& o : orientations_for(s, window, shape.size())) {
    if (fits(o, all)) out.push_back(o);
  }
  if (out.empty()) {
    fail(ErrorCode::kInvalidArgument,
         "a window of {} does not fit into volume {} of shape {}; make `window` at most that large "
         "or leave the volume out",
         times(window), name_of(volume), times(shape));
  }
  return out;
}

}  // namespace

struct WindowSampler::Plan {
  Normalisation normalisation;
  DeadMap dead;
  Split split;
  PassPlan passes;
  std::vector<WindowSpec> validation;  // all that fit, in order of place
};

namespace {

// Non-overlapping windows of one orientation in a box, spread evenly.
void add_validation(const Box& box, const Orientation& o, const DeadMap& dead, double dead_limit,
                    int32_t volume, std::vector<WindowSpec>& out) {
  if (!fits(o, box)) return;
  const size_t rank = box.low.size();
  std::vector<int64_t> counts(rank), index(rank, 0);
  for (size_t d = 0; d < rank; ++d) {
    // Sections one sample thick would be nearly the same as their neighbours: a few are enough.
    counts[d] = o.shape[d] == 1 ? std::min<int64_t>(box.extent(d), 16) : box.extent(d) / o.shape[d];
  }
  for (;;) {
    WindowSpec w;
    w.volume = volume;
    w.shape = o.shape;
    w.axes = o.axes;
    for (size_t d = 0; d < rank; ++d) {
      const int64_t room = box.extent(d) - o.shape[d];
      w.origin.push_back(box.low[d] +
                         (counts[d] > 1 ? room * index[d] / (counts[d] - 1) : room / 2));
    }
    if (dead.fraction(w.origin, w.shape) <= dead_limit) out.push_back(std::move(w));
    size_t d = rank;
    while (d-- > 0) {
      if (++index[d] < counts[d]) break;
      index[d] = 0;
    }
    if (d == static_cast<size_t>(-1)) return;
  }
}

}  // namespace

std::vector<int64_t> WindowSpec::window_shape() const {
  std::vector<int64_t> extents;
  for (const int32_t axis : axes) extents.push_back(shape[static_cast<size_t>(axis)]);
  return extents;
}

WindowSpec WindowSpec::slab(int64_t first, int64_t count) const {
  WindowSpec part = *this;
  const auto axis = static_cast<size_t>(axes[0]);
  part.first_row += first;
  // Before the flip.
  if ((flips & 1) != 0) first = shape[axis] - first - count;
  part.first_element +=
      static_cast<uint64_t>(first) * static_cast<uint64_t>(elements() / shape[axis]);
  part.origin[axis] += first;
  part.shape[axis] = count;
  return part;
}

AxisPart axis_part(int64_t extent, int64_t grain, int64_t parts, int64_t part) {
  const int64_t grains = (extent + grain - 1) / grain;
  const auto at = [&](int64_t p) { return std::min(grains * p / parts * grain, extent); };
  return {at(part), at(part + 1) - at(part)};
}

int64_t WindowSpec::elements() const {
  int64_t n = 1;
  for (const int64_t extent : shape) n *= extent;
  return n;
}

WindowSampler::WindowSampler(std::vector<SampledVolume> volumes, SamplerSettings settings)
    : volumes_(std::move(volumes)), settings_(std::move(settings)) {
  check_settings(settings_);
  check_volumes();
  std::vector<double> weights;
  for (size_t n = 0; n < volumes_.size(); ++n) {
    plans_.push_back(make_plan(n));
    weights.push_back(volumes_[n].weight > 0
                          ? volumes_[n].weight
                          : static_cast<double>(plans_.back()->passes.windows_of_two()));
  }
  turns_ = Turns(weights, settings_.seed);
  choose_validation();
}

WindowSampler::~WindowSampler() = default;

void WindowSampler::check_volumes() const {
  if (volumes_.empty()) fail(ErrorCode::kInvalidArgument, "no volume to take windows from");
  if (volumes_.size() > Turns::kMostSources) {
    fail(ErrorCode::kInvalidArgument, "{} volumes; at most {} can be mixed", volumes_.size(),
         Turns::kMostSources);
  }
  size_t weighted = 0;
  for (const SampledVolume& v : volumes_) {
    if (!(v.weight >= 0) || !std::isfinite(v.weight)) {
      fail(ErrorCode::kInvalidArgument, "weight: {} for volume {}; expected a positive number",
           v.weight, name_of(*v.volume));
    }
    if (!v.window.empty() && v.window.size() != settings_.window.size()) {
      fail(ErrorCode::kInvalidArgument, "window: {} for volume {}; expected {} numbers",
           times(v.window), name_of(*v.volume), settings_.window.size());
    }
    for (const int64_t n : v.window) {
      if (n < 1) fail(ErrorCode::kInvalidArgument, "window: {} is no number of samples", n);
    }
    weighted += v.weight > 0;
  }
  if (weighted != 0 && weighted != volumes_.size()) {
    fail(ErrorCode::kInvalidArgument,
         "{} of {} volumes have a weight; give one to all of them or to none", weighted,
         volumes_.size());
  }
}

std::unique_ptr<const WindowSampler::Plan> WindowSampler::make_plan(size_t number) const {
  const Volume& v = *volumes_[number].volume;
  const std::vector<int64_t>& window = window_of(volumes_[number]);
  const std::vector<int64_t> shape = v.info().shape();
  const std::vector<Orientation> orientations = fitting(settings_, window, v);
  DeadMap dead(v.live(), std::span(shape).first(shape.size() - 1));
  Split split = split_space(shape, orientations,
                            settings_.validation_count > 0 ? settings_.validation_fraction : 0);
  std::vector<WindowSpec> validation;
  for (const Box& box : split.validation) {
    for (const Orientation& o : orientations) {
      add_validation(box, o, dead, settings_.dead_fraction_limit, static_cast<int32_t>(number),
                     validation);
    }
  }
  if (split.validation.empty() && settings_.validation_fraction > 0 &&
      settings_.validation_count > 0) {
    log_warning(
        "volume {} of shape {} has no room for a validation window of {} beside training "
        "windows: all of it is for training",
        name_of(v), times(shape), times(window));
  }
  // Half of the working set is in use while the next part arrives.
  const uint64_t group_bytes = settings_.working_set_bytes / 2 / volumes_.size();
  auto plan = std::unique_ptr<const Plan>(
      new Plan{normalisation_of(v, settings_.clip_deviations), dead, split,
               PassPlan(shape, v.info().chunk_shape, orientations, split, dead,
                        settings_.dead_fraction_limit, group_bytes, settings_.seed,
                        static_cast<uint32_t>(number)),
               std::move(validation)});
  if (plan->passes.windows(0) == 0 || plan->passes.windows(1) == 0) {
    fail(ErrorCode::kInvalidArgument,
         "volume {} has no window of {} with at most {:.0f} % dead traces; raise the dead "
         "fraction limit or leave the volume out",
         name_of(v), times(window), settings_.dead_fraction_limit * 100);
  }
  return plan;
}

void WindowSampler::choose_validation() {
  // Each volume gives its share, evenly spread over its own windows; what one cannot give, the
  // others do not replace.
  for (size_t n = 0; n < plans_.size(); ++n) {
    const std::vector<WindowSpec>& have = plans_[n]->validation;
    const int64_t wanted =
        std::max<int64_t>(1, std::llround(share(static_cast<int32_t>(n)) *
                                          static_cast<double>(settings_.validation_count)));
    const int64_t count = std::min(wanted, static_cast<int64_t>(have.size()));
    for (int64_t k = 0; k < count; ++k) {
      // The middle of the k-th of `count` equal stretches.
      const auto at =
          static_cast<size_t>((2 * k + 1) * static_cast<int64_t>(have.size()) / (2 * count));
      validation_.push_back(have[at]);
    }
  }
  for (size_t k = 0; k < validation_.size(); ++k)
    validation_[k].sample_number = static_cast<int64_t>(k);
}

const Normalisation& WindowSampler::normalisation(int32_t index) const {
  return plans_[static_cast<size_t>(index)]->normalisation;
}

int64_t WindowSampler::largest_window() const {
  int64_t largest = 0;
  for (const SampledVolume& v : volumes_) {
    int64_t rows = 0, samples = 1;  // of the largest part; samples of a row
    for (const int64_t extent : window_of(v)) samples *= extent;
    const int64_t extent = window_of(v)[0];
    for (int64_t p = 0; p < settings_.parts; ++p)
      rows = std::max(rows, axis_part(extent, settings_.grain, settings_.parts, p).count);
    if (settings_.tile_rows > 0) rows = std::min(rows, settings_.tile_rows);
    if (rows < extent) samples = samples / extent * rows;
    largest = std::max(largest, samples);
  }
  return largest;
}

WindowSpec WindowSampler::locate(int64_t sample_number) const {
  if (settings_.parts == 1) return locate_whole(sample_number);
  return part_of(locate_whole(sample_number / settings_.parts), sample_number % settings_.parts);
}

WindowSpec WindowSampler::part_of(const WindowSpec& whole, int64_t part) const {
  const AxisPart cut = axis_part(whole.window_shape()[0], settings_.grain, settings_.parts, part);
  return whole.slab(cut.first, cut.count);
}

WindowSpec WindowSampler::locate_whole(int64_t sample_number) const {
  const Turns::Turn turn = turns_.at(sample_number);
  const auto v = static_cast<size_t>(turn.source);
  const Plan& plan = *plans_[v];
  WindowSpec w;
  w.sample_number = sample_number;
  w.volume = static_cast<int32_t>(v);
  const PassPlan::Cell cell = plan.passes.cell(turn.index, w.pass);
  const Orientation& o = plan.passes.orientations()[static_cast<size_t>(cell.orientation)];
  w.shape = o.shape;
  w.axes = o.axes;
  place(cell.begin, cell.size, plan.dead, w);
  augment(w);
  return w;
}

void WindowSampler::place(std::span<const int64_t> begin, std::span<const int64_t> size,
                          const DeadMap& dead, WindowSpec& w) const {
  const Philox random(settings_.seed, RandomPurpose::kSamplePlace,
                      static_cast<uint64_t>(w.sample_number));
  const size_t rank = begin.size();
  w.origin.resize(rank);
  // The cell is known to hold an origin with few dead traces: drawn, and if luck fails, the first
  // one after the last draw.
  constexpr uint64_t kDraws = 8;
  for (uint64_t draw = 0; draw < kDraws; ++draw) {
    for (size_t d = 0; d < rank; ++d) {
      w.origin[d] = begin[d] + static_cast<int64_t>(
                                   random.below(draw * rank + d, static_cast<uint64_t>(size[d])));
    }
    if (dead.fraction(w.origin, w.shape) <= settings_.dead_fraction_limit) return;
  }
  int64_t lateral = 1;
  for (size_t d = 0; d + 1 < rank; ++d) lateral *= size[d];
  for (int64_t step = 0; step < lateral; ++step) {
    size_t d = rank - 1;
    while (d-- > 0) {
      if (++w.origin[d] < begin[d] + size[d]) break;
      w.origin[d] = begin[d];
    }
    if (dead.fraction(w.origin, w.shape) <= settings_.dead_fraction_limit) return;
  }
  CRATON_CHECK(false, "a cell without a usable origin was chosen");
}

void WindowSampler::augment(WindowSpec& w) const {
  const Augmentation& a = settings_.augmentation;
  const Philox random(settings_.seed, RandomPurpose::kAugment,
                      static_cast<uint64_t>(w.sample_number));
  if (a.flip) w.flips = random.bits(0) & ((1u << (w.axes.size() - 1)) - 1);
  w.gain = static_cast<float>(1 + a.gain * (2.0 * random.uniform(1) - 1));
  if (a.polarity && (random.bits(2) & 1) != 0) w.gain = -w.gain;
  w.noise = static_cast<float>(a.noise * random.uniform(3));
  w.noise_seed = settings_.seed;
}

int64_t WindowSampler::windows_per_pass(int32_t volume, int64_t pass) const {
  return plans_[static_cast<size_t>(volume)]->passes.windows(pass);
}

int64_t WindowSampler::windows() const {
  int64_t sum = 0;
  for (const auto& plan : plans_) sum += plan->passes.windows_of_two();
  return sum / 2;
}

int64_t WindowSampler::validation_size() const { return static_cast<int64_t>(validation_.size()); }

WindowSpec WindowSampler::locate_validation(int64_t index) const {
  CRATON_CHECK(index >= 0 && index < validation_size(), "{} of {}", index, validation_size());
  return validation_[static_cast<size_t>(index)];
}

std::string WindowSampler::describe() const {
  std::string text =
      fmt::format("{} windows of {} from {} volume{}; {} for validation",
                  format_count(static_cast<double>(windows())), times(settings_.window),
                  volumes_.size(), volumes_.size() == 1 ? "" : "s", validation_size());
  if (volumes_.size() == 1) return text;
  for (size_t n = 0; n < volumes_.size(); ++n) {
    text += fmt::format("{} {} {:.1f} %", n == 0 ? ";" : ",", short_name(*volumes_[n].volume),
                        100 * share(static_cast<int32_t>(n)));
    if (!volumes_[n].window.empty()) text += fmt::format(" in {}", times(volumes_[n].window));
  }
  return text;
}

}  // namespace craton::volume
