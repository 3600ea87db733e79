#include "craton/parallel/reduction_tree.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "craton/base/check.h"

namespace craton::parallel {
namespace {

/// Elements per block of execute_merges: operands of a block stay in the first-level cache.
constexpr int64_t kBlock = 1024;

bool has_sibling(TreeNode node, int32_t count) {
  const TreeNode sibling{node.level, node.index ^ 1};
  return first_leaf(sibling) < count;
}

}  // namespace

int32_t root_level(int32_t micro_batches) {
  int32_t level = 0;
  while ((int64_t{1} << level) < micro_batches) ++level;
  return level;
}

TreeNode canonical(TreeNode node, int32_t count) {
  const int32_t root = root_level(count);
  while (node.level < root && node.index % 2 == 0 && !has_sibling(node, count)) {
    node = {node.level + 1, node.index / 2};
  }
  return node;
}

MergePlan plan_merges(std::span<const TreeNode> nodes, int32_t count) {
  MergePlan plan;
  plan.inputs = static_cast<int32_t>(nodes.size());
  // Ordered by level, so that a node is met after everything that can merge into it.
  std::map<TreeNode, int32_t> open;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const bool fresh = open.emplace(canonical(nodes[i], count), static_cast<int32_t>(i)).second;
    CRATON_CHECK(fresh, "node ({}, {}) twice", nodes[i].level, nodes[i].index);
  }
  int32_t next = plan.inputs;
  for (auto it = open.begin(); it != open.end();) {
    const TreeNode node = it->first;
    const auto right = open.find({node.level, node.index + 1});
    if (node.index % 2 != 0 || right == open.end()) {
      ++it;
      continue;
    }
    plan.adds.push_back({it->second, right->second, next});
    open.erase(right);
    open.erase(it);
    // The parent is of a higher level: it sorts behind the current position.
    it = open.emplace(canonical({node.level + 1, node.index / 2}, count), next++).first;
    it = open.lower_bound({node.level, node.index});
  }
  for (const auto& [node, operand] : open) plan.results.push_back({node, operand});
  std::sort(plan.results.begin(), plan.results.end(), [](const auto& a, const auto& b) {
    return std::pair(first_leaf(a.node), a.node.level) <
           std::pair(first_leaf(b.node), b.node.level);
  });
  return plan;
}

std::vector<TreeNode> maximal_nodes(std::span<const int32_t> micro_batches, int32_t count) {
  std::vector<TreeNode> leaves;
  for (int32_t m : micro_batches) leaves.push_back({0, m});
  std::vector<TreeNode> out;
  for (const auto& result : plan_merges(leaves, count).results) out.push_back(result.node);
  return out;
}

void execute_merges(const MergePlan& plan, std::span<const float* const> inputs,
                    std::span<float* const> results, int64_t length) {
  CRATON_CHECK(static_cast<int32_t>(inputs.size()) == plan.inputs &&
               results.size() == plan.results.size());
  const size_t operands = plan.inputs + plan.adds.size();
  std::vector<float> scratch(plan.adds.size() * kBlock);
  std::vector<const float*> at(operands);
  std::vector<float*> out(operands, nullptr);
  for (int64_t begin = 0; begin < length; begin += kBlock) {
    const int64_t n = std::min(kBlock, length - begin);
    for (int32_t i = 0; i < plan.inputs; ++i) at[i] = inputs[i] + begin;
    for (size_t k = 0; k < plan.adds.size(); ++k) {
      out[plan.inputs + k] = scratch.data() + k * kBlock;
      at[plan.inputs + k] = out[plan.inputs + k];
    }
    // A sum that is a result is written straight to its place.
    for (size_t k = 0; k < plan.results.size(); ++k) {
      const int32_t operand = plan.results[k].operand;
      if (operand >= plan.inputs) at[operand] = out[operand] = results[k] + begin;
    }
    for (const auto& add : plan.adds) {
      const float* left = at[add.left];
      const float* right = at[add.right];
      float* sum = out[add.out];
      for (int64_t i = 0; i < n; ++i) sum[i] = left[i] + right[i];
    }
    for (size_t k = 0; k < plan.results.size(); ++k) {
      const int32_t operand = plan.results[k].operand;
      if (operand < plan.inputs && results[k] + begin != at[operand]) {
        std::memcpy(results[k] + begin, at[operand], static_cast<size_t>(n) * sizeof(float));
      }
    }
  }
}

}  // namespace craton::parallel
