#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "craton/recipe/settings.h"
#include "craton/tensor/torch.h"

namespace craton::model {

/// One micro-batch. Whatever is random in a model is a function of (seed, sample number) through
/// craton::Philox.
struct Batch {
  torch::Tensor input;  ///< [batch, window...] float samples, normalised; or, for language models,
                        ///< [batch, sequence + 1] int64 tokens: each predicts the next
  std::vector<int64_t> sample_numbers;  ///< one per row of input; unique within a job
  uint64_t seed = 0;                    ///< the job's seed
  /// With context parallelism `input` is a slab of the window: rows [first_row, first_row + its
  /// own) of `window_rows`. 0: it is the whole window.
  int64_t first_row = 0, window_rows = 0;
  /// Instead of `input`, where that is too large to be in memory: so many rows at a time.
  struct Tiles {
    std::vector<int64_t> shape;  ///< of `input`, without the batch, which is 1
    int64_t rows = 0;            ///< of a tile; the last one may be smaller
    /// [1, count, ...]: rows [first, first + count) of the input.
    std::function<torch::Tensor(int64_t first, int64_t count)> read;
  };
  std::optional<Tiles> tiles;
  bool training = true;  ///< false in validation and prediction: no dropout
};

/// A model knows nothing of workers, strategies or recovery. It owns parameters (registered as in
/// libtorch) and gives a scalar loss. The loss of a micro-batch is a mean over its samples;
/// gradients of micro-batches are averaged by the trainer.
class Model : public torch::nn::Module {
 public:
  /// Scalar loss with graph when gradients are enabled.
  virtual torch::Tensor loss(const Batch& batch) = 0;
  /// For tokens/s; the tokens of one sample before masking.
  virtual int64_t tokens_per_sample() const = 0;
  /// Floating-point operations of one forward pass of one sample (a multiply-add counts 2);
  /// training counts 3x.
  virtual double forward_flops_per_sample() const = 0;
  /// Where several workers share a window it is cut across its first axis at multiples of this; 0:
  /// the model cannot share one. Attention then is over all workers (tensor::ContextScope); all
  /// else sees the own part, and the losses of all parts have the window's loss as their mean.
  virtual int64_t context_grain() const { return 0; }
  /// Heads of queries and of keys of an attention.
  struct AttentionHeads {
    int64_t queries = 1, keys = 1;
  };
  /// Those of the model that are over all workers which share a window.
  virtual std::vector<AttentionHeads> shared_attention() const { return {}; }
  /// Parameters that weight decay skips; default: those with one dimension or none.
  virtual bool decays(const std::string& name, const torch::Tensor& parameter) const {
    return parameter.dim() > 1;
  }
};

using ModelFactory =
    std::function<std::shared_ptr<Model>(const recipe::Settings& settings, uint64_t seed)>;

/// Makes `model.kind: NAME` known to recipes. Call before main (a static object) or at the start of
/// main.
bool register_model(const std::string& kind, ModelFactory factory);

/// `settings` is the recipe's `model` section; kind picks the factory. Unknown kind: Error that
/// lists the known ones.
std::shared_ptr<Model> create_model(const recipe::Settings& settings, uint64_t seed);

/// Fills a parameter with values that depend only on (seed, name): truncated normal, mean 0, cut at
/// 2 standard deviations.
void init_normal(torch::Tensor parameter, double standard_deviation, uint64_t seed,
                 const std::string& name);

}  // namespace craton::model
