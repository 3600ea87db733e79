#include "craton/train/window_data.h"

#include "craton/train/data_cache.h"

namespace craton::train {
namespace {

volume::SamplerSettings sampler_settings(const recipe::Recipe& recipe) {
  volume::SamplerSettings settings;
  const recipe::DataRecipe& data = recipe.data;
  settings.window = data.window;
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

WindowData::WindowData(const recipe::Recipe& recipe) : TrainingData(recipe) {
  DataCache cache(recipe.data.cache);
  sampler_ = std::make_shared<volume::WindowSampler>(open_volumes(recipe, cache),
                                                     sampler_settings(recipe));
  cache_ = cache.describe();
  loader_ = std::make_unique<volume::WindowLoader>(
      sampler_, volume::LoaderSettings{static_cast<size_t>(recipe.data.loader_threads),
                                       recipe.data.prefetch_bytes});
}

torch::Tensor WindowData::read(int64_t first, int64_t rows) {
  const volume::WindowSpec window = sampler_->locate(first);
  torch::Tensor batch = empty_batch(rows, window);
  const auto elements = static_cast<size_t>(window.elements());
  for (int64_t i = 0; i < rows; ++i) {
    loader_->take(first + i,
                  {batch.data_ptr<float>() + static_cast<size_t>(i) * elements, elements});
  }
  return batch;
}

torch::Tensor WindowData::read_validation(int64_t index) {
  const volume::WindowSpec window = sampler_->locate_validation(index);
  torch::Tensor batch = empty_batch(1, window);
  loader_->take_validation(index,
                           {batch.data_ptr<float>(), static_cast<size_t>(window.elements())});
  return batch;
}

}  // namespace craton::train
