#include "craton/train/window_source.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "craton/base/error.h"
#include "craton/runtime/thread_pool.h"
#include "craton/volume/sampling/window.h"

namespace craton::train {
namespace {

constexpr uint64_t kCacheBytes = 512u << 20;

Three on_three_axes(const std::vector<int64_t>& v) {
  return v.size() == 3 ? Three{v[0], v[1], v[2]} : Three{v[0], 1, v[1]};
}

}  // namespace

Tiling::Tiling(const volume::VolumeInfo& info, const recipe::DataRecipe& data,
               const std::vector<int64_t>& patch_shape) {
  const std::vector<int64_t> shape = info.shape();
  if (shape.size() < data.window.size() || shape.size() > 3) {
    fail(ErrorCode::kInvalidArgument,
         "{} has {} axes, and the model's window [{}] needs a volume of {}; take a volume like "
         "those "
         "it was trained on",
         info.uri, shape.size(), fmt::join(data.window, ", "),
         data.window.size() == 3 ? "3" : "2 or 3");
  }
  line = shape.size() == 2;
  volume = on_three_axes(shape);
  chunk = on_three_axes(info.chunk_shape);
  window = on_three_axes(data.window);
  patch = on_three_axes(patch_shape);
  if (!line && data.window.size() == 2 && data.sections != "crossline") {  // along an inline
    std::swap(window[0], window[1]);
    std::swap(patch[0], patch[1]);
  }
  for (size_t d = 0; d < 3; ++d) {
    chunk[d] = std::min(chunk[d], volume[d]);
    if (window[d] <= volume[d]) continue;
    fail(ErrorCode::kInvalidArgument,
         "the model's window [{}] does not fit into {} of shape [{}]; take a larger volume, or a "
         "model with a smaller window",
         fmt::join(data.window, ", "), info.uri, fmt::join(shape, ", "));
  }
}

std::vector<int64_t> Tiling::own(const Three& v) const {
  if (line) return {v[0], v[2]};
  return {v.begin(), v.end()};
}

std::vector<uint8_t> recorded_traces(const volume::Volume& volume, const Tiling& tiling,
                                     size_t threads) {
  const auto& [shape, chunk] = std::pair(tiling.volume, tiling.chunk);
  Three grid;
  for (size_t d = 0; d < 3; ++d) grid[d] = (shape[d] + chunk[d] - 1) / chunk[d];
  const std::vector<int64_t> stored = volume.info().chunk_shape;
  int64_t elements = 1;
  for (const int64_t n : stored) elements *= n;
  const int64_t stored_columns = tiling.line ? 1 : stored[1], stored_samples = stored.back();
  std::vector<uint8_t> out(static_cast<size_t>(shape[0] * shape[1]), 0);
  runtime::parallel_for(static_cast<size_t>(grid[0] * grid[1]), threads, [&](size_t column) {
    const int64_t a = static_cast<int64_t>(column) / grid[1],
                  b = static_cast<int64_t>(column) % grid[1];
    std::vector<float> samples(static_cast<size_t>(elements));
    bool all = false;
    // From the middle down, then the rest: a trace with samples has some there.
    for (int64_t k = 0; k < grid[2] && !all; ++k) {
      volume.read_chunk(tiling.own({a, b, (grid[2] / 2 + k) % grid[2]}), samples);
      all = true;
      for (int64_t i = a * chunk[0]; i < std::min((a + 1) * chunk[0], shape[0]); ++i) {
        for (int64_t x = b * chunk[1]; x < std::min((b + 1) * chunk[1], shape[1]); ++x) {
          const auto trace = static_cast<size_t>(i * shape[1] + x);
          if (out[trace] != 0 || volume.live()[trace] == 0) continue;
          const auto first =
              samples.begin() +
              ((i - a * chunk[0]) * stored_columns + x - b * chunk[1]) * stored_samples;
          out[trace] = std::any_of(first, first + stored_samples, [](float s) { return s != 0; });
          all = all && out[trace] != 0;
        }
      }
    }
  });
  return out;
}

WindowSource::WindowSource(std::shared_ptr<const volume::Volume> volume,
                           const recipe::DataRecipe& data, const std::vector<int64_t>& patch,
                           size_t threads)
    : volume_(std::move(volume)),
      window_shape_(data.window),
      tiling_(volume_->info(), data, patch),
      normalisation_(volume::normalisation_of(*volume_, data.clip_deviations)),
      recorded_(recorded_traces(*volume_, tiling_, threads)),
      dead_(recorded_, std::vector<int64_t>(tiling_.volume.begin(),
                                            tiling_.volume.begin() + (tiling_.line ? 1 : 2))),
      cache_(kCacheBytes, bytes_) {}

torch::Tensor WindowSource::read(const Three& origin) {
  std::vector<int64_t> shape = {1};
  shape.insert(shape.end(), window_shape_.begin(), window_shape_.end());
  torch::Tensor window = torch::empty(shape, torch::kFloat32);  // [1, window...]
  const std::span<float> samples(window.data_ptr<float>(), static_cast<size_t>(window.numel()));
  volume::WindowSpec spec;
  spec.origin = tiling_.own(origin);
  spec.shape = tiling_.own(tiling_.window);
  volume::assemble_window(spec, *volume_, normalisation_, cache_, samples);
  const auto depth = static_cast<size_t>(tiling_.window[2]);
  for (int64_t i = 0; i < tiling_.window[0]; ++i) {
    for (int64_t x = 0; x < tiling_.window[1]; ++x) {
      if (recorded(origin[0] + i, origin[1] + x)) continue;
      const auto first = static_cast<size_t>(i * tiling_.window[1] + x) * depth;
      std::fill_n(samples.begin() + static_cast<ptrdiff_t>(first), depth, 0.0f);
    }
  }
  return window;
}

}  // namespace craton::train
