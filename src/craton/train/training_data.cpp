#include "craton/train/training_data.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "craton/base/log.h"
#include "craton/train/token_data.h"
#include "craton/train/window_data.h"

namespace craton::train {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kFirstValidationNumber = int64_t{1} << 40;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

std::shared_ptr<TrainingData> TrainingData::open(const recipe::Recipe& recipe, int64_t grain) {
  const auto start = Clock::now();
  std::shared_ptr<TrainingData> data;
  if (!recipe.data.tokens.empty())
    data = std::make_shared<TokenData>(recipe);
  else
    data = std::make_shared<WindowData>(recipe, grain);
  data->seconds_to_open_ = seconds_since(start);
  return data;
}

model::Batch TrainingData::unit(int64_t number) {
  const int64_t first = first_sample(number);
  const auto start = Clock::now();
  model::Batch batch;
  batch.seed = recipe_.seed;
  read(first, recipe_.train.micro_batch, number % parts(), batch);
  for (int64_t i = 0; i < recipe_.train.micro_batch; ++i) batch.sample_numbers.push_back(first + i);
  if (!std::exchange(has_given_one_, true))
    log_debug("the first batch took {:.4f} s, {:.4f} s of it to open the data",
              seconds_to_open_ + seconds_since(start), seconds_to_open_);
  return batch;
}

model::Batch TrainingData::validation(int64_t index) {
  return validation_batch(index, std::nullopt);
}

model::Batch TrainingData::validation_part(int64_t index, int64_t part) {
  return validation_batch(index, part);
}

model::Batch TrainingData::validation_batch(int64_t index, std::optional<int64_t> part) {
  model::Batch batch;
  batch.seed = recipe_.seed;
  batch.training = false;
  read_validation(index, part, batch);
  // Numbers past all training samples: the masks of validation windows are their own, and the same
  // in every job of a seed.
  batch.sample_numbers = {kFirstValidationNumber + index};
  return batch;
}

int64_t TrainingData::validation_size() const {
  return recipe_.train.validate_every > 0
             ? std::min(validation_windows(), recipe_.train.validation_samples)
             : 0;
}

void TrainingData::expect(const std::vector<int64_t>& units) {
  std::vector<int64_t> numbers;
  for (int64_t number : units) {
    for (int64_t i = 0; i < recipe_.train.micro_batch; ++i)
      numbers.push_back((first_sample(number) + i) * parts() + number % parts());
  }
  expect_samples(numbers);
}

}  // namespace craton::train
