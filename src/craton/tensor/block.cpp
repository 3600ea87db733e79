#include "craton/tensor/block.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <utility>

namespace craton::tensor {
namespace {

thread_local BlockPolicy g_policy;

/// Passes gradients on as they are; `reached` runs in backward before anything behind it.
struct Crossing : torch::autograd::Node {
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    reached();
    return std::move(gradients);
  }
  std::function<void()> reached;
};

/// `tensors` as others: those that need a gradient come through a node of their own.
Tensors cross(Tensors tensors, std::function<void()> reached) {
  torch::autograd::edge_list edges;
  for (const torch::Tensor& tensor : tensors) {
    if (tensor.defined() && tensor.requires_grad())
      edges.push_back(torch::autograd::impl::gradient_edge(tensor));
  }
  if (edges.empty()) return tensors;
  const std::shared_ptr<Crossing> node(new Crossing, torch::autograd::deleteNode);
  node->reached = std::move(reached);
  node->set_next_edges(std::move(edges));
  for (torch::Tensor& tensor : tensors) {
    if (!tensor.defined() || !tensor.requires_grad()) continue;
    tensor = tensor.detach();
    torch::autograd::set_history(tensor, node);
  }
  return tensors;
}

/// Acquired while it lives, unless it is told to leave it so.
class Lent {
 public:
  Lent(ParameterSource* source, const torch::nn::Module& block) : source_(source), block_(block) {
    if (source_ != nullptr) source_->acquire(block_);
  }
  Lent(const Lent&) = delete;
  Lent& operator=(const Lent&) = delete;
  ~Lent() {
    if (source_ != nullptr) source_->release(block_);
  }
  void keep() { source_ = nullptr; }

 private:
  ParameterSource* source_;
  const torch::nn::Module& block_;
};

}  // namespace

BlockScope::BlockScope(const BlockPolicy& policy) : before_(std::exchange(g_policy, policy)) {
  try {
    if (policy.source != nullptr) policy.source->begin();
  } catch (...) {
    policy.source->end();
    g_policy = before_;
    throw;
  }
}

BlockScope::~BlockScope() {
  if (g_policy.source != nullptr) g_policy.source->end();
  g_policy = before_;
}

Tensors run_block(const torch::nn::Module& block, const Tensors& inputs,
                  const std::function<Tensors(const Tensors&)>& body) {
  ParameterSource* source = g_policy.source;
  Lent lent(source, block);
  if (!torch::GradMode::is_enabled()) return body(inputs);
  // Nodes run in the opposite order of their making: all of the block's come after the one behind
  // it and before the one in front of it.
  const bool keep = g_policy.keep_until_backward;
  const Tensors outputs = body(cross(inputs, [source, &block] {
    if (source != nullptr) source->release(block);
  }));
  if (keep) lent.keep();
  return cross(outputs, [source, &block, keep] {
    if (source != nullptr && !keep) source->acquire(block);
  });
}

}  // namespace craton::tensor
