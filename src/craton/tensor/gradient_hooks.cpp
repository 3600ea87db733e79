#include "craton/tensor/gradient_hooks.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

namespace craton::tensor {
namespace {

// Runs behind the node that accumulates a leaf's gradient.
struct AfterAccumulation : torch::autograd::FunctionPostHook {
  AfterAccumulation(torch::Tensor leaf, std::function<void(const torch::Tensor&)> callback)
      : parameter(std::move(leaf)), ready(std::move(callback)) {}

  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    torch::Tensor gradient = parameter.mutable_grad();
    parameter.mutable_grad().reset();
    if (gradient.defined()) ready(gradient.contiguous());
    return outputs;
  }

  torch::Tensor parameter;
  std::function<void(const torch::Tensor&)> ready;
};

}  // namespace

GradientHook::GradientHook(const torch::Tensor& parameter,
                           std::function<void(const torch::Tensor&)> ready) {
  accumulator_ = torch::autograd::impl::grad_accumulator(parameter);
  // The hook must not keep the accumulator alive through the parameter; detached handles share the
  // storage, not the graph, so hold the leaf itself: the cycle leaf -> accumulator (weak) -> hook
  // -> leaf is broken by the destructor.
  key_ =
      accumulator_->add_post_hook(std::make_unique<AfterAccumulation>(parameter, std::move(ready)));
}

GradientHook::~GradientHook() { accumulator_->del_post_hook(key_); }

}  // namespace craton::tensor
