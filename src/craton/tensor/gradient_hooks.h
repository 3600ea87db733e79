#pragma once

#include <functional>

#include "craton/tensor/torch.h"

namespace craton::tensor {

/// Calls `ready(gradient)` in backward as soon as the whole gradient of the leaf `parameter` is
/// known (a parameter used twice: after both uses), on the thread that runs backward. The gradient
/// is contiguous and is dropped afterwards: `parameter.grad()` stays undefined, so no second copy
/// of the gradients builds up. The hook lives as long as the returned handle.
class GradientHook {
 public:
  GradientHook(const torch::Tensor& parameter,
               std::function<void(const torch::Tensor& gradient)> ready);
  GradientHook(const GradientHook&) = delete;
  GradientHook& operator=(const GradientHook&) = delete;
  ~GradientHook();

 private:
  std::shared_ptr<torch::autograd::Node> accumulator_;
  uintptr_t key_ = 0;
};

}  // namespace craton::tensor
