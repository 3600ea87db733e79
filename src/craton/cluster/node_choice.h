#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace craton::cluster {

/// A node that can start workers.
struct NodeLoad {
  std::string node;
  int slots = 0;    ///< so many workers at most; 0: as many as are wanted
  int workers = 0;  ///< that run there or start
};

/// Where the next worker starts: the node with the fewest workers that has a free slot and is not
/// to be avoided; the first of equals. Nothing when there is none: the start waits for one.
std::optional<std::string> choose_node(std::span<const NodeLoad> nodes,
                                       const std::vector<std::string>& avoid);

}  // namespace craton::cluster
