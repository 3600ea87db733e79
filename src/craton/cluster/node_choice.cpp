#include "craton/cluster/node_choice.h"

#include <algorithm>

namespace craton::cluster {

std::optional<std::string> choose_node(std::span<const NodeLoad> nodes,
                                       const std::vector<std::string>& avoid) {
  const NodeLoad* best = nullptr;
  for (const NodeLoad& node : nodes) {
    if (node.slots > 0 && node.workers >= node.slots) continue;
    if (std::find(avoid.begin(), avoid.end(), node.node) != avoid.end()) continue;
    if (best == nullptr || node.workers < best->workers) best = &node;
  }
  if (best == nullptr) return std::nullopt;
  return best->node;
}

}  // namespace craton::cluster
