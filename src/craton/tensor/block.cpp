#include "craton/tensor/block.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <optional>
#include <unordered_set>
#include <utility>

#include "craton/base/check.h"
#include "craton/base/error.h"
#include "craton/runtime/progress_page.h"

namespace craton::tensor {
namespace {

thread_local BlockPolicy g_policy;

/// Passes gradients on as they are; `reached` runs in backward before anything behind it.
struct Crossing : torch::autograd::Node {
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    runtime::count_progress();
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

using Body = std::function<Tensors(const Tensors&)>;

/// Error when the graph behind `outputs` ends at a leaf that is not among `known`: its gradient
/// would be lost.
void check_leaves(const Tensors& outputs, const Tensors& known) {
  std::unordered_set<const torch::autograd::Node*> seen;
  for (const torch::Tensor& tensor : known)
    seen.insert(torch::autograd::impl::gradient_edge(tensor).function.get());
  std::vector<torch::autograd::Node*> next;
  const auto visit = [&](torch::autograd::Node* node) {
    if (node == nullptr || !seen.insert(node).second) return;
    if (node->num_outputs() == 0) {
      fail(ErrorCode::kInvalidArgument,
           "a block of the model computes with a parameter that is not its own, so its activations "
           "cannot be computed again in backward; register the parameter in the block, pass it in "
           "as an input, or set train.activation_checkpointing to false");
    }
    next.push_back(node);
  };
  for (const torch::Tensor& tensor : outputs) visit(tensor.grad_fn().get());
  while (!next.empty()) {
    torch::autograd::Node* node = next.back();
    next.pop_back();
    for (const auto& edge : node->next_edges()) visit(edge.function.get());
  }
}

/// A block whose inputs are all that was kept: runs it again, with a graph of its own.
struct Recomputation : torch::autograd::Node {
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    runtime::count_progress();
    CRATON_CHECK(body != nullptr, "backward through a block a second time");
    std::optional<Lent> lent;
    if (!kept) lent.emplace(source, *block);
    torch::autograd::variable_list result = run(std::move(gradients));
    if (kept && source != nullptr) source->release(*block);
    return result;
  }

  torch::autograd::variable_list run(torch::autograd::variable_list&& gradients) {
    const torch::AutoGradMode with_graph(true);
    Tensors again, wanted;
    for (const Tensors tensors = std::exchange(inputs, {}); const torch::Tensor& tensor : tensors) {
      again.push_back(tensor);
      if (!tensor.defined() || !tensor.requires_grad()) continue;
      again.back() = tensor.detach().requires_grad_();
      wanted.push_back(again.back());
    }
    wanted.insert(wanted.end(), parameters.begin(), parameters.end());
    Tensors reached, slopes;
    const Tensors outputs = std::exchange(body, nullptr)(again);
    for (size_t i = 0, g = 0; i < outputs.size(); ++i) {
      if (!outputs[i].defined()) continue;
      const torch::Tensor& gradient = gradients[g++];
      if (!gradient.defined() || !outputs[i].requires_grad()) continue;
      reached.push_back(outputs[i]);
      slopes.push_back(gradient);
    }
    if (reached.empty()) return torch::autograd::variable_list(wanted.size());
    check_leaves(reached, wanted);
    return torch::autograd::grad(reached, wanted, slopes, false, false, true);
  }

  ParameterSource* source = nullptr;
  const torch::nn::Module* block = nullptr;
  bool kept = false;
  Tensors inputs;      // as forward had them
  Tensors parameters;  // of the block, those that need a gradient
  Body body;
};

/// run_block with nothing but `inputs` kept for backward.
Tensors run_twice(const torch::nn::Module& block, const Tensors& inputs, const Body& body,
                  Lent& lent) {
  torch::autograd::edge_list edges;
  Tensors parameters, kept;
  for (const torch::Tensor& tensor : inputs) {
    kept.push_back(tensor.defined() ? tensor.detach() : tensor);
    if (!tensor.defined() || !tensor.requires_grad()) continue;
    kept.back().requires_grad_();
    edges.push_back(torch::autograd::impl::gradient_edge(tensor));
  }
  for (const torch::Tensor& parameter : block.parameters()) {
    if (!parameter.requires_grad()) continue;
    parameters.push_back(parameter);
    edges.push_back(torch::autograd::impl::gradient_edge(parameter));
  }
  if (edges.empty()) return body(inputs);
  Tensors outputs;
  {
    torch::NoGradGuard no_graph;
    outputs = body(inputs);
  }
  const std::shared_ptr<Recomputation> node(new Recomputation, torch::autograd::deleteNode);
  node->source = g_policy.source;
  node->block = &block;
  node->kept = g_policy.keep_until_backward;
  node->inputs = std::move(kept);
  node->parameters = std::move(parameters);
  node->body = body;
  node->set_next_edges(std::move(edges));
  for (torch::Tensor& tensor : outputs) {
    if (!tensor.defined()) continue;
    tensor = tensor.detach();
    torch::autograd::set_history(tensor, node);
  }
  if (node->kept) lent.keep();
  return outputs;
}

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
  runtime::count_progress();  // a block of a long context takes its time
  ParameterSource* source = g_policy.source;
  Lent lent(source, block);
  if (!torch::GradMode::is_enabled()) return body(inputs);
  if (g_policy.recompute) return run_twice(block, inputs, body, lent);
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
