#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

namespace craton::parallel {

/// A subtree of the canonical binary tree over micro-batches 0..M-1: level 0 are the micro-batches,
/// node (l, i) covers [i * 2^l, min((i+1) * 2^l, M)) and is the sum of its children (l-1, 2i) +
/// (l-1, 2i+1), or the left child itself where the right one lies past M. Every sum is left +
/// right, elementwise in fp32: so the bits of the root depend on the micro-batches alone.
struct TreeNode {
  int32_t level = 0;
  int32_t index = 0;
  auto operator<=>(const TreeNode&) const = default;
};

/// Level of the root: smallest l with 2^l >= M.
int32_t root_level(int32_t micro_batches);

/// The same sum under its highest name: climbs while the node is a left child without a sibling.
TreeNode canonical(TreeNode node, int32_t micro_batches);

/// Maximal subtrees that a set of micro-batches (ascending) covers wholly, in ascending order of
/// their first micro-batch.
std::vector<TreeNode> maximal_nodes(std::span<const int32_t> micro_batches, int32_t count);

/// First micro-batch that the node covers.
inline int32_t first_leaf(TreeNode node) { return node.index << node.level; }

/// How to add up a set of disjoint subtrees as far as they go.
struct MergePlan {
  struct Add {
    int32_t left, right,
        out;  ///< operand numbers; 0..inputs-1 are the inputs, then one number per Add
  };
  struct Result {
    TreeNode node;
    int32_t operand;
  };
  int32_t inputs = 0;
  std::vector<Add> adds;  ///< in an order that can be executed
  std::vector<Result>
      results;  ///< what is left; one result, the root, when the inputs cover all micro-batches
};

/// `nodes` in any order, disjoint.
MergePlan plan_merges(std::span<const TreeNode> nodes, int32_t micro_batches);

/// Executes a plan for `length` elements: inputs[k] and results[k] as in the plan; a result may
/// alias an input of the same number. Works in cache-sized blocks, one pass over memory.
void execute_merges(const MergePlan& plan, std::span<const float* const> inputs,
                    std::span<float* const> results, int64_t length);

}  // namespace craton::parallel
