#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "craton/base/error.h"
#include "craton/train/each_window.h"
#include "craton/train/prediction.h"
#include "craton/train/window_source.h"
#include "craton/volume/mdio/writer.h"
#include "craton/volume/zarr/metadata.h"

namespace craton::train {
namespace {

namespace zarr = volume::zarr;

/// The array of features: its chunks are the windows, counted in patches.
struct FeatureGrid {
  Three patches{}, window{};  ///< of the volume and of a window
  int64_t dim = 0;

  FeatureGrid(const Tiling& tiling, int64_t features) : dim(features) {
    for (size_t d = 0; d < 3; ++d) {
      patches[d] = tiling.volume[d] / tiling.patch[d];
      window[d] = tiling.window[d] / tiling.patch[d];
    }
  }
  int64_t chunks(size_t d) const { return (patches[d] + window[d] - 1) / window[d]; }
  /// First patch of the window of a chunk: the last window is moved back to fit.
  int64_t origin(size_t d, int64_t chunk) const {
    return std::min(chunk * window[d], patches[d] - window[d]);
  }
};

zarr::ArrayMetadata describe(const FeatureGrid& grid, const WindowSource& source,
                             const LoadedModel& model) {
  const Tiling& tiling = source.tiling();
  zarr::ArrayMetadata m;
  m.shape = tiling.own(grid.patches);
  m.object_shape = tiling.own(grid.window);
  m.shape.push_back(grid.dim);
  m.object_shape.push_back(grid.dim);
  m.type = zarr::data_type_from_name("float32");
  m.fill = zarr::parse_fill_value("NaN", m.type);
  zarr::BytesCodec blosc;
  blosc.name = "blosc";
  blosc.level = 3;
  blosc.element_size = m.type.size;
  m.codecs.bytes_codecs = {blosc};
  for (const volume::Axis& axis : source.volume().info().axes)
    m.dimension_names.push_back(axis.name);
  m.dimension_names.push_back("feature");
  m.attributes["craton"] = {
      {"kind", "patch features"},          {"volume", source.volume().info().uri},
      {"patch", tiling.own(tiling.patch)}, {"window", tiling.own(tiling.window)},
      {"checkpoint_step", model.step},     {"state_sha256", model.state_sha256}};
  return m;
}

/// The part of a window's features [tokens, dim] that is the chunk, NaN past the array's edge.
std::vector<float> cut_chunk(const FeatureGrid& grid, const Three& chunk,
                             const torch::Tensor& features) {
  std::vector<float> out(static_cast<size_t>(features.numel()),
                         std::numeric_limits<float>::quiet_NaN());
  Three skip;
  for (size_t d = 0; d < 3; ++d) skip[d] = chunk[d] * grid.window[d] - grid.origin(d, chunk[d]);
  const auto& w = grid.window;
  const float* from = features.data_ptr<float>();
  for (int64_t i = skip[0]; i < w[0]; ++i) {
    for (int64_t x = skip[1]; x < w[1]; ++x) {
      const int64_t source = ((i * w[1] + x) * w[2] + skip[2]) * grid.dim;
      const int64_t target = (((i - skip[0]) * w[1] + x - skip[1]) * w[2]) * grid.dim;
      std::memcpy(out.data() + target, from + source,
                  static_cast<size_t>((w[2] - skip[2]) * grid.dim) * sizeof(float));
    }
  }
  return out;
}

}  // namespace

std::vector<int64_t> embed_patches(const LoadedModel& model,
                                   std::shared_ptr<const volume::Volume> volume,
                                   const PredictionOptions& options) {
  WindowSource source(std::move(volume), model.recipe.data, model.model->settings().patch,
                      options.threads);
  const Tiling& tiling = source.tiling();
  const FeatureGrid grid(tiling, model.model->settings().dim);
  const zarr::ArrayMetadata metadata = describe(grid, source, model);
  volume::mdio::VolumeTarget target(options.out, options.replace);

  std::vector<Three> chunks, origins;  // of windows with live traces
  for (int64_t a = 0; a < grid.chunks(0); ++a) {
    for (int64_t b = 0; b < grid.chunks(1); ++b) {
      for (int64_t c = 0; c < grid.chunks(2); ++c) {
        const Three chunk = {a, b, c};
        Three origin;
        for (size_t d = 0; d < 3; ++d) origin[d] = grid.origin(d, chunk[d]) * tiling.patch[d];
        if (source.dead_share(origin, tiling.window) == 1) continue;
        chunks.push_back(chunk);
        origins.push_back(origin);
      }
    }
  }
  const auto total = static_cast<int64_t>(chunks.size());
  for_each_window<char>(
      chunks.size(), options.threads,
      [&](size_t k) {
        if (options.cancel != nullptr && *options.cancel)
          fail(ErrorCode::kCancelled, "interrupted; nothing was written");
        const torch::Tensor features = model.model->embed(source.read(origins[k]))[0].contiguous();
        const std::vector<float> chunk = cut_chunk(grid, chunks[k], features);
        std::vector<int64_t> index = tiling.own(chunks[k]);
        index.push_back(0);
        target.put(metadata.object_key(index),
                   zarr::encode_chunk(metadata.codecs, std::as_bytes(std::span(chunk)),
                                      metadata.object_shape, metadata.type));
        return char{1};
      },
      [&](size_t k, char) {
        if (options.progress) options.progress(static_cast<int64_t>(k) + 1, total);
      });
  target.commit({{"zarr.json", zarr::to_json_v3(metadata)}});
  return metadata.shape;
}

}  // namespace craton::train
