#include "craton/train/window_data.h"

#include <algorithm>

#include "craton/runtime/progress_page.h"
#include "craton/train/data_cache.h"

namespace craton::train {
namespace {

volume::SamplerSettings sampler_settings(const recipe::Recipe& recipe, int64_t grain) {
  volume::SamplerSettings settings;
  const recipe::DataRecipe& data = recipe.data;
  settings.window = data.window;
  settings.parts = recipe.parallel.context;
  settings.grain = std::max<int64_t>(grain, 1);
  settings.tile_rows = data.tile_rows;
  settings.stride = data.stride;
  settings.sections = data.sections;
  settings.seed = recipe.seed;
  settings.validation_fraction = data.validation_fraction;
  settings.validation_count = recipe.train.validation_samples;
  settings.dead_fraction_limit = data.dead_fraction_limit;
  settings.clip_deviations = data.clip_deviations;
  settings.working_set_bytes = data.working_set_bytes;
  settings.augmentation = {data.augment.flip, data.augment.polarity, data.augment.gain,
                           data.augment.noise};
  return settings;
}

std::vector<volume::SampledVolume> open_volumes(const recipe::Recipe& recipe, DataCache& cache) {
  std::vector<volume::SampledVolume> volumes;
  for (const auto& entry : recipe.data.volumes) {
    volumes.push_back({volume::open_volume(entry.uri, entry.variable, cache.policy_for(entry.uri)),
                       entry.weight, entry.window});
  }
  return volumes;
}

/// Uninitialised [rows, window...].
torch::Tensor empty_batch(int64_t rows, const volume::WindowSpec& window) {
  std::vector<int64_t> shape = window.window_shape();
  shape.insert(shape.begin(), rows);
  return torch::empty(shape, torch::kFloat32);
}

}  // namespace

WindowData::WindowData(const recipe::Recipe& recipe, int64_t grain) : TrainingData(recipe) {
  DataCache cache(recipe.data.cache);
  sampler_ = std::make_shared<volume::WindowSampler>(open_volumes(recipe, cache),
                                                     sampler_settings(recipe, grain));
  cache_ = cache.describe();
  loader_ = std::make_unique<volume::WindowLoader>(
      sampler_, volume::LoaderSettings{static_cast<size_t>(recipe.data.loader_threads),
                                       recipe.data.prefetch_bytes});
}

void WindowData::read_tiles(const volume::WindowSpec& window, model::Batch& batch) {
  batch.tiles = {
      window.window_shape(), recipe().data.tile_rows, [this, window](int64_t first, int64_t count) {
        runtime::count_progress();
        const volume::WindowSpec tile = window.slab(first, count);
        torch::Tensor samples = empty_batch(1, tile);
        loader_->assemble(tile, {samples.data_ptr<float>(), static_cast<size_t>(samples.numel())});
        return samples;
      }};
}

void WindowData::read(int64_t first, int64_t rows, int64_t part, model::Batch& batch) {
  const volume::WindowSpec window = sampler_->locate(first * parts() + part);
  if (parts() > 1) {
    batch.first_row = window.first_row;
    batch.window_rows = sampler_->locate_whole(first).window_shape()[0];
  }
  if (recipe().data.tile_rows > 0) return read_tiles(window, batch);
  batch.input = empty_batch(rows, window);
  const auto elements = static_cast<size_t>(window.elements());
  for (int64_t i = 0; i < rows; ++i) {
    loader_->take((first + i) * parts() + part,
                  {batch.input.data_ptr<float>() + static_cast<size_t>(i) * elements, elements});
  }
}

void WindowData::read_validation(int64_t index, std::optional<int64_t> part, model::Batch& batch) {
  volume::WindowSpec window = sampler_->locate_validation(index);
  if (part && parts() > 1) {
    batch.window_rows = window.window_shape()[0];
    window = sampler_->part_of(window, *part);
    batch.first_row = window.first_row;
  }
  if (part && recipe().data.tile_rows > 0) return read_tiles(window, batch);
  batch.input = empty_batch(1, window);
  loader_->assemble(window,
                    {batch.input.data_ptr<float>(), static_cast<size_t>(window.elements())});
}

void WindowData::expect_samples(const std::vector<int64_t>& numbers) {
  if (recipe().data.tile_rows == 0) loader_->expect(numbers);
}

}  // namespace craton::train
