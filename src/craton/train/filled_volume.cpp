#include "craton/train/filled_volume.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "craton/base/error.h"
#include "craton/runtime/thread_pool.h"

namespace craton::train {
namespace {

template <typename T>
void store_as(float value, std::byte* to) {
  T stored;
  if constexpr (std::is_floating_point_v<T>) {
    stored = value;
  } else {
    using Limits = std::numeric_limits<T>;
    const double rounded = std::nearbyint(static_cast<double>(value));
    stored = static_cast<T>(std::clamp(rounded, static_cast<double>(Limits::min()),
                                       static_cast<double>(Limits::max())));
  }
  std::memcpy(to, &stored, sizeof(T));
}

struct StoredType {
  const char* name;
  size_t bytes;
  void (*store)(float, std::byte*);
};

/// The types in which a volume can be written.
constexpr StoredType kTypes[] = {
    {"float32", 4, store_as<float>},   {"float64", 8, store_as<double>},
    {"int8", 1, store_as<int8_t>},     {"int16", 2, store_as<int16_t>},
    {"int32", 4, store_as<int32_t>},   {"uint8", 1, store_as<uint8_t>},
    {"uint16", 2, store_as<uint16_t>}, {"uint32", 4, store_as<uint32_t>},
};

std::vector<double> positions(const volume::Volume& volume, const char* name, int64_t traces) {
  const auto array = volume.read_array(name);
  if (!array) return {};
  std::vector<double> numbers = array->numbers();
  return static_cast<int64_t>(numbers.size()) == traces ? numbers : std::vector<double>{};
}

}  // namespace

FilledVolume::FilledVolume(WindowSource& source, const LoadedModel& model,
                           const FillOptions& options)
    : source_(source), options_(options) {
  const volume::VolumeInfo& info = source.volume().info();
  const Tiling& tiling = source.tiling();
  const auto* type = std::find_if(std::begin(kTypes), std::end(kTypes),
                                  [&](const StoredType& t) { return info.sample_type == t.name; });
  same_type_ = type != std::end(kTypes);
  if (!same_type_) type = &kTypes[0];
  sample_type_ = type->name;
  sample_bytes_ = type->bytes;
  store_ = type->store;

  volume::VolumeSpec spec;
  spec.name = info.name;
  spec.survey_type = tiling.line ? "2D" : "3D";
  spec.axes = info.axes;
  spec.chunk_shape = tiling.own(tiling.chunk);
  spec.sample_type = sample_type_;
  const int64_t traces = tiling.volume[0] * tiling.volume[1];
  spec.cdp_x = positions(source.volume(), "cdp_x", traces);
  spec.cdp_y = positions(source.volume(), "cdp_y", traces);
  writer_ = volume::create_volume(options.out, spec, options.replace);
  nlohmann::json origin = {{"kind", options.mask_ratio ? "reconstructed" : "filled"},
                           {"volume", info.uri},
                           {"checkpoint_step", model.step},
                           {"overlap", options.overlap}};
  if (options.mask_ratio) origin["mask_ratio"] = *options.mask_ratio;
  if (!model.state_sha256.empty()) origin["state_sha256"] = model.state_sha256;
  writer_->set_attribute("craton", origin.dump());
}

void FilledVolume::write_layers_before(int64_t end, Blend& blend) {
  const Tiling& tiling = source_.tiling();
  const int64_t layers = (tiling.volume[0] + tiling.chunk[0] - 1) / tiling.chunk[0];
  for (; next_layer_ < layers; ++next_layer_) {
    const int64_t layer_end = std::min((next_layer_ + 1) * tiling.chunk[0], tiling.volume[0]);
    if (layer_end > end) return;
    write_layer(next_layer_, blend);
    blend.drop_rows_before(layer_end);
  }
}

/// Per trace of the layer: dead ones of which all samples are known now. Counts them.
std::vector<uint8_t> FilledVolume::filled_traces(int64_t layer, const Blend& blend) {
  const Tiling& tiling = source_.tiling();
  const int64_t first = layer * tiling.chunk[0], columns = tiling.volume[1];
  const int64_t rows = std::min(tiling.chunk[0], tiling.volume[0] - first);
  std::vector<uint8_t> filled(static_cast<size_t>(rows * columns), 0);
  for (int64_t i = 0; i < rows; ++i) {
    int64_t live = 0, now_live = 0;
    for (int64_t x = 0; x < columns; ++x) {
      if (source_.recorded(first + i, x)) {
        ++live;
        continue;
      }
      const auto trace = blend.trace(first + i, x);
      const bool known = trace && trace->complete();
      filled[static_cast<size_t>(i * columns + x)] = known;
      now_live += known;
      report_.left_dead += !known;
    }
    report_.filled += now_live;
    // A picture shows most where there is much to see of both, else in the middle.
    const std::pair score(std::min(live, now_live),
                          -std::abs(2 * (first + i) + 1 - tiling.volume[0]));
    if (score > best_score_) {
      best_score_ = score;
      report_.shown_row = first + i;
    }
  }
  return filled;
}

void FilledVolume::write_layer(int64_t layer, const Blend& blend) {
  const Tiling& tiling = source_.tiling();
  const std::vector<uint8_t> filled = filled_traces(layer, blend);
  const int64_t across = (tiling.volume[1] + tiling.chunk[1] - 1) / tiling.chunk[1],
                down = (tiling.volume[2] + tiling.chunk[2] - 1) / tiling.chunk[2];
  std::vector<Misfit> misfits(static_cast<size_t>(across * down));
  runtime::parallel_for(misfits.size(), options_.threads, [&](size_t k) {
    const auto n = static_cast<int64_t>(k);
    misfits[k] = write_chunk({layer, n / down, n % down}, blend, filled);
  });
  for (const Misfit& m : misfits) {
    misfit_.samples += m.samples;
    misfit_.squares += m.squares;
    misfit_.truth_squares += m.truth_squares;
  }
}

void FilledVolume::read_stored(const Three& origin, const Three& extent,
                               std::span<std::byte> out) const {
  const Tiling& tiling = source_.tiling();
  if (same_type_) return source_.volume().read_raw(tiling.own(origin), tiling.own(extent), out);
  source_.volume().read(tiling.own(origin), tiling.own(extent),
                        {reinterpret_cast<float*>(out.data()), out.size() / sizeof(float)});
}

/// Puts what is known of a trace from sample `first` on over its stored samples. `truth` is empty
/// where nothing was recorded.
void FilledVolume::put_predicted(const Blend::Trace& trace, int64_t first,
                                 std::span<std::byte> samples, std::span<const float> truth,
                                 Misfit& misfit) const {
  const volume::Normalisation& normal = source_.normalisation();
  const size_t count = samples.size() / sample_bytes_;
  for (size_t t = 0; t < count; ++t) {
    const size_t k = static_cast<size_t>(first) + t;
    if (trace.weight[k] == 0) continue;
    const float value = normal.invert(trace.sum[k] / trace.weight[k]);
    store_(value, samples.data() + t * sample_bytes_);
    if (truth.empty()) continue;
    const double off = static_cast<double>(value) - truth[t];
    const double about_mean = static_cast<double>(truth[t]) - normal.mean;
    ++misfit.samples;
    misfit.squares += off * off;
    misfit.truth_squares += about_mean * about_mean;
  }
}

FilledVolume::Misfit FilledVolume::write_chunk(const Three& chunk, const Blend& blend,
                                               const std::vector<uint8_t>& filled) {
  const Tiling& tiling = source_.tiling();
  Three origin, extent;
  for (size_t d = 0; d < 3; ++d) {
    origin[d] = chunk[d] * tiling.chunk[d];
    extent[d] = std::min(tiling.chunk[d], tiling.volume[d] - origin[d]);
  }
  const auto count = static_cast<size_t>(extent[2]), row_bytes = count * sample_bytes_;
  const auto chunk_row_bytes = static_cast<size_t>(tiling.chunk[2]) * sample_bytes_;
  const auto chunk_traces = static_cast<size_t>(tiling.chunk[0] * tiling.chunk[1]);
  const auto traces = static_cast<size_t>(extent[0] * extent[1]);
  std::vector<std::byte> block(traces * row_bytes);
  read_stored(origin, extent, block);
  std::vector<float> truth(options_.mask_ratio ? traces * count : 0);
  if (options_.mask_ratio) source_.volume().read(tiling.own(origin), tiling.own(extent), truth);
  std::vector<std::byte> out(chunk_traces * chunk_row_bytes);
  std::vector<uint8_t> live(chunk_traces, 0);
  Misfit misfit;
  for (size_t n = 0; n < traces; ++n) {
    const int64_t i = static_cast<int64_t>(n) / extent[1], x = static_cast<int64_t>(n) % extent[1];
    const int64_t row = origin[0] + i, column = origin[1] + x;
    const auto to = static_cast<size_t>(i * tiling.chunk[1] + x);
    const std::span samples(out.data() + to * chunk_row_bytes, row_bytes);
    std::memcpy(samples.data(), block.data() + n * row_bytes, row_bytes);
    const bool fill = filled[static_cast<size_t>(i * tiling.volume[1] + column)] != 0;
    const bool recorded = source_.recorded(row, column);
    live[to] =
        fill || source_.volume().live()[static_cast<size_t>(row * tiling.volume[1] + column)] != 0;
    if (!fill && !recorded) continue;
    if (const auto trace = blend.trace(row, column)) {
      const auto known = recorded ? std::span<const float>(truth).subspan(n * count, count)
                                  : std::span<const float>();
      put_predicted(*trace, origin[2], samples, known, misfit);
    }
  }
  writer_->write_chunk_raw(tiling.own(chunk), out, live);
  return misfit;
}

FillReport FilledVolume::report() const {
  FillReport report = report_;
  if (misfit_.samples > 0 && misfit_.truth_squares > 0)
    report.error = misfit_.squares / misfit_.truth_squares;
  return report;
}

}  // namespace craton::train
