#pragma once

#include <functional>
#include <vector>

#include "craton/tensor/torch.h"

namespace craton::tensor {

/// Gives a model's parameters to those who compute with them, where a worker does not keep all of
/// them. Called by the thread that computes.
class ParameterSource {
 public:
  virtual ~ParameterSource() = default;
  /// Parameters of no block are whole from `begin` to `end`; `end` also takes back whatever is
  /// still lent.
  virtual void begin() = 0;
  virtual void end() noexcept = 0;
  /// The parameters of `block` and of the modules in it are whole until they have been released as
  /// often as they were acquired.
  virtual void acquire(const torch::nn::Module& block) = 0;
  virtual void release(const torch::nn::Module& block) noexcept = 0;
};

/// How the blocks of a model are run.
struct BlockPolicy {
  ParameterSource* source = nullptr;  ///< null: all parameters are there anyway
  bool keep_until_backward = false;   ///< what forward has acquired stays for backward
  /// Of a block, only its inputs are kept for backward, which runs it again (Chen et al., "Training
  /// deep nets with sublinear memory cost", 2016). Bits stay as they are.
  bool recompute = false;
};

/// While it lives, this thread computes (forward and backward) under `policy`. Begins and ends its
/// source.
class BlockScope {
 public:
  explicit BlockScope(const BlockPolicy& policy);
  BlockScope(const BlockScope&) = delete;
  BlockScope& operator=(const BlockScope&) = delete;
  ~BlockScope();

 private:
  BlockPolicy before_;
};

using Tensors = std::vector<torch::Tensor>;

/// One call of a block of a model: body(inputs). Marks where the block begins and ends, forward and
/// backward, so that its parameters are there when it needs them and only then. A model that does
/// not mark its blocks is right as well, but all its parameters are there for as long as it
/// computes.
///
/// `inputs`: every tensor from outside that needs a gradient; entries may be undefined, and so may
/// those of the result. The body must not use parameters other than the block's (`recompute` finds
/// out: kInvalidArgument in backward). It is called once, or, with `recompute`, again in backward:
/// so it holds what it needs by value, and gives the same result each time. Gradients are passed
/// through unchanged. They are added up as if the block were one operation, with every policy
/// alike, so that bits do not depend on it.
Tensors run_block(const torch::nn::Module& block, const Tensors& inputs,
                  const std::function<Tensors(const Tensors&)>& body);

}  // namespace craton::tensor
