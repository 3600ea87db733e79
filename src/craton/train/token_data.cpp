#include "craton/train/token_data.h"

#include "craton/train/data_cache.h"

namespace craton::train {
namespace {

std::vector<tokens::TokenSource> open_sources(const recipe::Recipe& recipe, DataCache& cache) {
  std::vector<tokens::TokenSource> sources;
  for (const auto& entry : recipe.data.tokens) {
    // Bytes are tokens: no form of them is better to keep than what is stored.
    store::CachePolicy policy = cache.policy_for(entry.uri);
    policy.form = store::CacheForm::kStored;
    sources.push_back({tokens::open_token_files(entry.uri, {entry.type, policy}), entry.weight});
  }
  return sources;
}

}  // namespace

TokenData::TokenData(const recipe::Recipe& recipe) : TrainingData(recipe) {
  const recipe::DataRecipe& data = recipe.data;
  DataCache cache(data.cache);
  sampler_ = std::make_shared<tokens::TokenSampler>(
      open_sources(recipe, cache),
      tokens::TokenSamplerSettings{data.sequence, recipe.seed, data.validation_fraction,
                                   recipe.train.validation_samples, data.working_set_bytes});
  cache_ = cache.describe();
  loader_ = std::make_unique<tokens::TokenLoader>(
      sampler_, tokens::TokenLoaderSettings{data.prefetch_bytes, data.vocabulary});
}

void TokenData::read(int64_t first, int64_t rows, int64_t, model::Batch& batch) {
  const int64_t length = recipe().data.sequence + 1;
  batch.input = torch::empty({rows, length}, torch::kInt64);
  for (int64_t i = 0; i < rows; ++i) {
    loader_->take(first + i,
                  {batch.input.data_ptr<int64_t>() + i * length, static_cast<size_t>(length)});
  }
}

void TokenData::read_validation(int64_t index, std::optional<int64_t>, model::Batch& batch) {
  batch.input = torch::empty({1, recipe().data.sequence + 1}, torch::kInt64);
  loader_->take_validation(
      index, {batch.input.data_ptr<int64_t>(), static_cast<size_t>(batch.input.numel())});
}

}  // namespace craton::train
