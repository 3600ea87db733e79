#include "craton/train/training_data.h"

#include <algorithm>

#include "craton/train/data_cache.h"

namespace craton::train {
namespace {

constexpr int64_t kFirstValidationNumber = int64_t{1} << 40;

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

/// `cache_text` becomes what people should know of the cache.
std::vector<volume::SampledVolume> open_volumes(const recipe::Recipe& recipe,
                                                std::string& cache_text) {
  std::vector<volume::SampledVolume> volumes;
  store::CachePolicy cache;
  for (const auto& entry : recipe.data.volumes) {
    const bool cached = is_cached(recipe.data.cache, entry.uri);
    if (cached && cache_text.empty()) {
      std::string trouble;
      cache = open_data_cache(recipe.data.cache, trouble);
      cache_text = cache.cache ? "; cache " + cache.cache->folder().string()
                               : "; without a cache: " + trouble;
    }
    volumes.push_back(
        {volume::open_volume(entry.uri, entry.variable, cached ? cache : store::CachePolicy()),
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

TrainingData::TrainingData(const recipe::Recipe& recipe)
    : recipe_(recipe),
      sampler_(std::make_shared<volume::WindowSampler>(open_volumes(recipe, cache_),
                                                       sampler_settings(recipe))),
      loader_(std::make_unique<volume::WindowLoader>(
          sampler_, volume::LoaderSettings{static_cast<size_t>(recipe.data.loader_threads),
                                           recipe.data.prefetch_bytes})) {}

std::string TrainingData::describe() const { return sampler_->describe() + cache_; }

model::Batch TrainingData::micro_batch(int64_t number) {
  const int64_t rows = recipe_.train.micro_batch;
  const int64_t first = first_sample(number);
  model::Batch batch;
  batch.seed = recipe_.seed;
  const volume::WindowSpec window = sampler_->locate(first);
  batch.input = empty_batch(rows, window);
  const auto elements = static_cast<size_t>(window.elements());
  for (int64_t i = 0; i < rows; ++i) {
    batch.sample_numbers.push_back(first + i);
    loader_->take(first + i,
                  {batch.input.data_ptr<float>() + static_cast<size_t>(i) * elements, elements});
  }
  return batch;
}

model::Batch TrainingData::validation(int64_t index) {
  model::Batch batch;
  batch.seed = recipe_.seed;
  batch.training = false;
  const volume::WindowSpec window = sampler_->locate_validation(index);
  batch.input = empty_batch(1, window);
  // Numbers past all training samples: the masks of validation windows are their own, and the same
  // in every job of a seed.
  batch.sample_numbers = {kFirstValidationNumber + index};
  loader_->take_validation(index,
                           {batch.input.data_ptr<float>(), static_cast<size_t>(window.elements())});
  return batch;
}

int64_t TrainingData::validation_size() const {
  return recipe_.train.validate_every > 0
             ? std::min(sampler_->validation_size(), recipe_.train.validation_samples)
             : 0;
}

void TrainingData::expect(const std::vector<int64_t>& micro_batches) {
  std::vector<int64_t> numbers;
  for (int64_t number : micro_batches) {
    for (int64_t i = 0; i < recipe_.train.micro_batch; ++i)
      numbers.push_back(first_sample(number) + i);
  }
  loader_->expect(numbers);
}

}  // namespace craton::train
