#pragma once

#include "craton/train/training_data.h"
#include "craton/volume/sampling/loader.h"

namespace craton::train {

/// Windows of volumes: model::Batch with input [rows, window...]. Where volumes have windows of
/// their own, micro_batch is 1.
class WindowData final : public TrainingData {
 public:
  /// Shared windows are cut at multiples of `grain` rows.
  WindowData(const recipe::Recipe& recipe, int64_t grain);

  const volume::WindowSampler& sampler() const { return *sampler_; }
  std::string describe() const override { return sampler_->describe() + cache_; }
  double seconds_waited() const override { return loader_->metrics().seconds_waited; }

 private:
  void read(int64_t first, int64_t rows, int64_t part, model::Batch& batch) override;
  void read_validation(int64_t index, std::optional<int64_t> part, model::Batch& batch) override;
  int64_t validation_windows() const override { return sampler_->validation_size(); }
  void expect_samples(const std::vector<int64_t>& numbers) override;
  /// The window, or the part of one, piece by piece.
  void read_tiles(const volume::WindowSpec& window, model::Batch& batch);

  std::string cache_;  // for people; empty without one
  std::shared_ptr<const volume::WindowSampler> sampler_;
  std::unique_ptr<volume::WindowLoader> loader_;
};

}  // namespace craton::train
