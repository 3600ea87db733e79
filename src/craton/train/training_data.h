#pragma once

#include <memory>
#include <string>
#include <vector>

#include "craton/model/model.h"
#include "craton/recipe/recipe.h"

namespace craton::train {

/// The micro-batches of a job, by number: which samples belong to each is arithmetic, so any worker
/// can make any of them. Counted over all steps: micro-batch m of a step is number position + m,
/// where all steps before it have used `position` of them.
class TrainingData {
 public:
  /// Opens what the recipe names: windows of volumes (window_data.h) or tokens (token_data.h).
  static std::shared_ptr<TrainingData> open(const recipe::Recipe& recipe);
  virtual ~TrainingData() = default;
  TrainingData(const TrainingData&) = delete;
  TrainingData& operator=(const TrainingData&) = delete;

  /// Samples micro_batch * number ..., in order.
  model::Batch micro_batch(int64_t number);
  /// Number of its first sample; the others follow.
  int64_t first_sample(int64_t number) const { return number * recipe_.train.micro_batch; }
  /// One validation sample, as a batch of one.
  model::Batch validation(int64_t index);
  int64_t validation_size() const;

  /// Steps whose samples are prepared ahead; the loader's byte budget is the real bound.
  static constexpr int64_t kStepsAhead = 4;
  /// Tells the loader which micro-batches this worker will take next, by number.
  void expect(const std::vector<int64_t>& micro_batches);

  /// One line for people: what there is, and which cache it is read through.
  virtual std::string describe() const = 0;
  /// Total since the start.
  virtual double seconds_waited() const = 0;

 protected:
  explicit TrainingData(const recipe::Recipe& recipe) : recipe_(recipe) {}
  const recipe::Recipe& recipe() const { return recipe_; }

 private:
  /// [rows, ...]: samples first, first + 1, ...
  virtual torch::Tensor read(int64_t first, int64_t rows) = 0;
  /// [1, ...]
  virtual torch::Tensor read_validation(int64_t index) = 0;
  virtual int64_t validation_windows() const = 0;
  virtual void expect_samples(const std::vector<int64_t>& numbers) = 0;

  const recipe::Recipe recipe_;
};

}  // namespace craton::train
