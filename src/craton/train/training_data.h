#pragma once

#include <memory>
#include <vector>

#include "craton/model/model.h"
#include "craton/recipe/recipe.h"
#include "craton/volume/sampling/loader.h"

namespace craton::train {

/// The micro-batches of a job, by number: which samples belong to each is arithmetic, so any worker
/// can make any of them. Counted over all steps: micro-batch m of a step is number position + m,
/// where all steps before it have used `position` of them.
class TrainingData {
 public:
  explicit TrainingData(const recipe::Recipe& recipe);

  /// Samples micro_batch * number ..., in order; as model::Batch with input [micro_batch,
  /// window...]. Where volumes have windows of their own, micro_batch is 1.
  model::Batch micro_batch(int64_t number);
  /// Number of its first sample; the others follow.
  int64_t first_sample(int64_t number) const { return number * recipe_.train.micro_batch; }
  /// One validation window, as a batch of one.
  model::Batch validation(int64_t index);
  int64_t validation_size() const;

  /// Steps whose windows are prepared ahead; the loader's byte budget is the real bound.
  static constexpr int64_t kStepsAhead = 4;
  /// Tells the loader which micro-batches this worker will take next, by number.
  void expect(const std::vector<int64_t>& micro_batches);

  const volume::WindowSampler& sampler() const { return *sampler_; }
  /// One line for people: what there is, and which cache it is read through.
  std::string describe() const;
  /// Total since the start.
  double seconds_waited() const { return loader_->metrics().seconds_waited; }

 private:
  const recipe::Recipe recipe_;
  std::string cache_;  // for people; empty without one
  std::shared_ptr<const volume::WindowSampler> sampler_;
  std::unique_ptr<volume::WindowLoader> loader_;
};

}  // namespace craton::train
