#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "craton/model/model.h"
#include "craton/recipe/recipe.h"

namespace craton::train {

/// The units of a job, by number: which samples belong to each is arithmetic, so any worker can
/// make any of them. A unit is a micro-batch, or one of the `parallel.context` parts of one.
/// Counted over all steps: unit u of a step is number position + u, where all steps before it have
/// used `position` of them.
class TrainingData {
 public:
  /// Opens what the recipe names: windows of volumes (window_data.h) or tokens (token_data.h).
  /// `grain`: of the model (context_grain), where windows are shared.
  static std::shared_ptr<TrainingData> open(const recipe::Recipe& recipe, int64_t grain);
  virtual ~TrainingData() = default;
  TrainingData(const TrainingData&) = delete;
  TrainingData& operator=(const TrainingData&) = delete;

  /// Samples first_sample(number), ... of a micro-batch, in order; of a shared window its part.
  model::Batch unit(int64_t number);
  /// Number of its first sample; the others follow. Also: samples of so many units.
  int64_t first_sample(int64_t number) const {
    return number / parts() * recipe_.train.micro_batch;
  }
  /// One validation sample, as a batch of one.
  model::Batch validation(int64_t index);
  /// The part of one that a worker of a context computes.
  model::Batch validation_part(int64_t index, int64_t part);
  int64_t validation_size() const;

  /// Steps whose samples are prepared ahead; the loader's byte budget is the real bound.
  static constexpr int64_t kStepsAhead = 4;
  /// Tells the loader which units this worker will take next, by number.
  void expect(const std::vector<int64_t>& units);

  /// One line for people: what there is, and which cache it is read through.
  virtual std::string describe() const = 0;
  /// Total since the start.
  virtual double seconds_waited() const = 0;

 protected:
  explicit TrainingData(const recipe::Recipe& recipe) : recipe_(recipe) {}
  const recipe::Recipe& recipe() const { return recipe_; }
  /// Of a window: the workers of a context.
  int64_t parts() const { return recipe_.parallel.context; }

 private:
  /// Fills in `batch.input` [rows, ...] with samples first, first + 1, ..., of which only part
  /// `part` is wanted where windows are shared (then also which rows they are).
  virtual void read(int64_t first, int64_t rows, int64_t part, model::Batch& batch) = 0;
  /// The same with one validation sample; no part: all of it.
  virtual void read_validation(int64_t index, std::optional<int64_t> part, model::Batch& batch) = 0;
  virtual int64_t validation_windows() const = 0;
  /// Sample n, or part p of it: n * parts + p.
  virtual void expect_samples(const std::vector<int64_t>& numbers) = 0;
  model::Batch validation_batch(int64_t index, std::optional<int64_t> part);

  const recipe::Recipe recipe_;
  double seconds_to_open_ = 0;
  bool has_given_one_ = false;
};

}  // namespace craton::train
