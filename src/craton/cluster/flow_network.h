#pragma once

#include <cstdint>
#include <vector>

namespace craton::cluster {

/// Maximum flow of least cost on a directed graph with small integer costs.
///
/// Primal-dual: distances by residual cost (label-correcting), then a blocking flow over the edges
/// that lie on cheapest paths, until the sink is out of reach. With costs 0 and 1 there are few
/// distinct distances, so few rounds.
class FlowNetwork {
 public:
  explicit FlowNetwork(int nodes) : first_(nodes, -1) {}

  int add_node();
  /// Returns the number of the edge, for `flow`.
  int add_edge(int from, int to, int32_t capacity, int32_t cost = 0);
  /// Pushes all that fits from `source` to `sink`; returns the amount.
  int64_t run(int source, int sink);
  int32_t flow(int edge) const { return edges_[edge ^ 1].capacity; }

 private:
  struct Edge {
    int32_t to, next, capacity, cost;
  };
  bool find_distances(int source, int sink);
  bool find_levels(int source, int sink);
  int64_t push_blocking_flow(int source, int sink);
  bool admissible(int from, const Edge& edge) const {
    return edge.capacity > 0 && distance_[edge.to] == distance_[from] + edge.cost;
  }

  std::vector<int32_t> first_;
  std::vector<Edge> edges_;
  std::vector<int32_t> distance_, level_, cursor_;
};

}  // namespace craton::cluster
