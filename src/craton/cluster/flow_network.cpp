#include "craton/cluster/flow_network.h"

#include <algorithm>
#include <deque>
#include <limits>

namespace craton::cluster {
namespace {
constexpr int32_t kFar = std::numeric_limits<int32_t>::max() / 2;
}

int FlowNetwork::add_node() {
  first_.push_back(-1);
  return static_cast<int>(first_.size()) - 1;
}

int FlowNetwork::add_edge(int from, int to, int32_t capacity, int32_t cost) {
  const int number = static_cast<int>(edges_.size());
  edges_.push_back({to, first_[from], capacity, cost});
  first_[from] = number;
  edges_.push_back({from, first_[to], 0, -cost});
  first_[to] = number + 1;
  return number;
}

bool FlowNetwork::find_distances(int source, int sink) {
  distance_.assign(first_.size(), kFar);
  std::vector<bool> queued(first_.size(), false);
  std::deque<int> queue{source};
  distance_[source] = 0;
  while (!queue.empty()) {
    const int node = queue.front();
    queue.pop_front();
    queued[node] = false;
    for (int e = first_[node]; e >= 0; e = edges_[e].next) {
      const Edge& edge = edges_[e];
      if (edge.capacity == 0 || distance_[edge.to] <= distance_[node] + edge.cost) continue;
      distance_[edge.to] = distance_[node] + edge.cost;
      if (queued[edge.to]) continue;
      queued[edge.to] = true;
      if (edge.cost > 0) {
        queue.push_back(edge.to);
      } else {
        queue.push_front(edge.to);
      }
    }
  }
  return distance_[sink] < kFar;
}

bool FlowNetwork::find_levels(int source, int sink) {
  level_.assign(first_.size(), -1);
  level_[source] = 0;
  std::vector<int> queue{source};
  for (size_t i = 0; i < queue.size(); ++i) {
    for (int e = first_[queue[i]]; e >= 0; e = edges_[e].next) {
      if (!admissible(queue[i], edges_[e]) || level_[edges_[e].to] >= 0) continue;
      level_[edges_[e].to] = level_[queue[i]] + 1;
      queue.push_back(edges_[e].to);
    }
  }
  return level_[sink] >= 0;
}

int64_t FlowNetwork::push_blocking_flow(int source, int sink) {
  cursor_ = first_;
  int64_t pushed = 0;
  std::vector<int> path;  // edges from the source to `node`
  for (int node = source;;) {
    if (node == sink) {
      int32_t amount = std::numeric_limits<int32_t>::max();
      for (int e : path) amount = std::min(amount, edges_[e].capacity);
      for (int e : path) {
        edges_[e].capacity -= amount;
        edges_[e ^ 1].capacity += amount;
      }
      pushed += amount;
      path.clear();
      node = source;
      continue;
    }
    int& e = cursor_[node];
    while (e >= 0 && !(admissible(node, edges_[e]) && level_[edges_[e].to] == level_[node] + 1))
      e = edges_[e].next;
    if (e >= 0) {
      path.push_back(e);
      node = edges_[e].to;
    } else if (path.empty()) {
      return pushed;
    } else {
      level_[node] = -1;
      node = edges_[path.back() ^ 1].to;
      path.pop_back();
    }
  }
}

int64_t FlowNetwork::run(int source, int sink) {
  int64_t total = 0;
  while (find_distances(source, sink)) {
    while (find_levels(source, sink)) total += push_blocking_flow(source, sink);
  }
  return total;
}

}  // namespace craton::cluster
