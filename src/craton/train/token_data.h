#pragma once

#include "craton/tokens/token_loader.h"
#include "craton/train/training_data.h"

namespace craton::train {

/// Tokens for language models: model::Batch with input [rows, sequence + 1] of int64, of which a
/// model predicts the last `sequence`.
class TokenData final : public TrainingData {
 public:
  explicit TokenData(const recipe::Recipe& recipe);

  std::string describe() const override { return sampler_->describe() + cache_; }
  double seconds_waited() const override { return loader_->metrics().seconds_waited; }

 private:
  void read(int64_t first, int64_t rows, int64_t part, model::Batch& batch) override;
  void read_validation(int64_t index, std::optional<int64_t> part, model::Batch& batch) override;
  int64_t validation_windows() const override { return sampler_->validation_size(); }
  void expect_samples(const std::vector<int64_t>& numbers) override { loader_->expect(numbers); }

  std::string cache_;  // for people; empty without one
  std::shared_ptr<const tokens::TokenSampler> sampler_;
  std::unique_ptr<tokens::TokenLoader> loader_;
};

}  // namespace craton::train
