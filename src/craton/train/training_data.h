#pragma once

#include <memory>

#include "craton/base/strong.h"
#include "craton/model/model.h"
#include "craton/recipe/recipe.h"
#include "craton/volume/sampling/loader.h"

namespace craton::train {

/// The micro-batches of a job, by number: which samples belong to (step, micro-batch) is
/// arithmetic, so any worker can make any of them.
class TrainingData {
 public:
  explicit TrainingData(const recipe::Recipe& recipe);

  /// Samples (step-1) * global_batch + micro_batch * m ..., in order; as model::Batch with input
  /// [micro_batch, window...]. Where volumes have windows of their own, micro_batch is 1.
  model::Batch micro_batch(Step step, int32_t m);
  /// Number of its first sample; the others follow.
  int64_t first_sample(Step step, int32_t m) const;
  /// One validation window, as a batch of one.
  model::Batch validation(int64_t index);
  int64_t validation_size() const;

  /// Tells the loader which micro-batches this worker will take next: those of `micro_batches` in
  /// steps `next`, next+1, ... up to its look-ahead.
  void expect(Step next, const std::vector<int32_t>& micro_batches);

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
