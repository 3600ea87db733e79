#include "craton/cluster/placement.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "craton/cluster/micro_batches.h"

namespace craton::cluster {
namespace {

#ifdef NDEBUG
constexpr int kWalks = 2000, kChanges = 6;
#else
constexpr int kWalks = 100, kChanges = 6;
#endif

/// Cluster of named nodes whose members keep identities over changes, so that holders carry over.
struct Cluster {
  struct Worker {
    int id;
    std::string node;
  };
  int shards, backups;
  bool replicate_all = false;
  std::vector<Worker> workers;
  std::vector<std::vector<int>> holders;  // worker ids by shard

  PlacementInput input() const {
    PlacementInput input{.backups = backups, .replicate_all = replicate_all};
    std::vector<std::string> nodes;
    std::map<int, int> rank;
    for (const Worker& w : workers) {
      rank[w.id] = static_cast<int>(nodes.size());
      nodes.push_back(w.node);
    }
    for (int32_t d : failure_domains(nodes)) input.members.push_back({d});
    input.holders.resize(shards);
    for (size_t s = 0; s < holders.size(); ++s) {
      for (int id : holders[s]) {
        if (rank.contains(id)) input.holders[s].push_back(Rank(rank[id]));
      }
    }
    return input;
  }

  void adopt(const Placement& placement) {
    holders.assign(shards, {});
    for (int s = 0; s < shards; ++s) {
      for (Rank r : placement.holders[s]) holders[s].push_back(workers[r.value()].id);
    }
  }
};

/// Loads of the fairest assignment: fill one copy at a time into the emptiest member whose domain
/// has room for it.
std::vector<int> fair_loads(const PlacementInput& input, int copies) {
  const int shards = static_cast<int>(input.holders.size());
  std::vector<int> load(input.members.size()), domain(input.members.size());
  for (int i = 0; i < shards * copies; ++i) {
    int best = -1;
    for (size_t m = 0; m < load.size(); ++m) {
      if (domain[input.members[m].domain] == shards) continue;
      if (best < 0 || load[m] < load[best]) best = static_cast<int>(m);
    }
    ++load[best];
    ++domain[input.members[best].domain];
  }
  std::sort(load.begin(), load.end());
  return load;
}

/// The least number of moved shards over all placements with distinct domains and fair loads, by
/// successive cheapest paths on the explicit (shard, member) graph. Written independently of the
/// code under test; slow and plain.
class LeastMoves {
 public:
  LeastMoves(const PlacementInput& input, int copies) {
    const int shards = static_cast<int>(input.holders.size()),
              members = static_cast<int>(input.members.size());
    int domains = 0;
    for (const auto& m : input.members) domains = std::max(domains, m.domain + 1);
    const std::vector<int> fair = fair_loads(input, copies);
    // Fair loads as capacities: which members get the extra one is free, within the room of their
    // domain.
    std::vector<int> size(domains), sum(domains);
    for (const auto& m : input.members) ++size[m.domain];
    const int top = fair.back();
    int level = top;  // lowest load of members in domains that are not full
    for (int f : fair) level = std::min(level, f);
    const int source = 0, sink = 1, shared = 2;
    nodes_ = 3 + shards + shards * domains + members + domains;
    const auto shard = [&](int s) { return 3 + s; };
    const auto door = [&](int s, int d) { return 3 + shards + s * domains + d; };
    const auto member = [&](int m) { return 3 + shards + shards * domains + m; };
    const auto extra = [&](int d) { return 3 + shards + shards * domains + members + d; };
    // Water level by its definition, not by the code under test.
    level = 0;
    const auto filled = [&](int l) {
      int total = 0;
      for (int n : size) total += std::min(shards, n * l);
      return total;
    };
    while (level < shards && filled(level + 1) <= shards * copies) ++level;
    add(shared, sink, shards * copies - filled(level), 0);
    for (int d = 0; d < domains; ++d) {
      const bool full = size[d] * level >= shards;
      add(extra(d), full ? sink : shared,
          full ? shards % size[d] : std::min(size[d], shards - size[d] * level), 0);
    }
    for (int m = 0; m < members; ++m) {
      const int d = input.members[m].domain;
      add(member(m), sink, size[d] * level >= shards ? shards / size[d] : level, 0);
      add(member(m), extra(d), 1, 0);
    }
    for (int s = 0; s < shards; ++s) {
      add(source, shard(s), copies, 0);
      for (int d = 0; d < domains; ++d) add(shard(s), door(s, d), 1, 0);
      for (int m = 0; m < members; ++m) {
        const auto& live = input.holders[s];
        const bool has = std::find(live.begin(), live.end(), Rank(m)) != live.end();
        add(door(s, input.members[m].domain), member(m), 1, has ? 0 : 1);
      }
    }
    while (augment(source, sink)) {
    }
  }
  int cost() const { return cost_; }
  int flow() const { return flow_; }

 private:
  struct Edge {
    int from, to, capacity, cost;
  };
  void add(int from, int to, int capacity, int cost) {
    edges_.push_back({from, to, capacity, cost});
    edges_.push_back({to, from, 0, -cost});
  }
  bool augment(int source, int sink) {
    if (by_node_.empty()) {
      by_node_.resize(nodes_);
      for (size_t e = 0; e < edges_.size(); ++e)
        by_node_[edges_[e].from].push_back(static_cast<int>(e));
    }
    std::vector<int> distance(nodes_, 1 << 20), over(nodes_, -1);
    distance[source] = 0;
    std::set<std::pair<int, int>> queue{{0, source}};
    while (!queue.empty()) {
      const int node = queue.begin()->second;
      queue.erase(queue.begin());
      for (int e : by_node_[node]) {
        const Edge& edge = edges_[e];
        if (edge.capacity == 0 || distance[edge.to] <= distance[node] + edge.cost) continue;
        queue.erase({distance[edge.to], edge.to});
        distance[edge.to] = distance[node] + edge.cost;
        over[edge.to] = e;
        queue.insert({distance[edge.to], edge.to});
      }
    }
    if (over[sink] < 0) return false;
    for (int node = sink; node != source; node = edges_[over[node]].from) {
      --edges_[over[node]].capacity;
      ++edges_[over[node] ^ 1].capacity;
    }
    cost_ += distance[sink];
    ++flow_;
    return true;
  }
  int nodes_ = 0, cost_ = 0, flow_ = 0;
  std::vector<Edge> edges_;
  std::vector<std::vector<int>> by_node_;
};

std::vector<int> loads(const PlacementInput& input, const Placement& placement, bool primaries) {
  std::vector<int> load(input.members.size());
  for (const auto& ranks : placement.holders) {
    for (size_t i = 0; i < (primaries ? 1 : ranks.size()); ++i) ++load[ranks[i].value()];
  }
  return load;
}

void expect_valid(const PlacementInput& input, const Placement& placement) {
  const int copies = copies_wanted(input);
  for (size_t s = 0; s < placement.holders.size(); ++s) {
    const auto& ranks = placement.holders[s];
    ASSERT_EQ(ranks.size(), static_cast<size_t>(copies)) << "shard " << s;
    std::set<int> domains;
    bool holder_stays = false;
    const auto& live = input.holders[s];
    for (Rank r : ranks) {
      domains.insert(input.members[r.value()].domain);
      ASSERT_FALSE(input.members[r.value()].leaving);
      holder_stays |= std::find(live.begin(), live.end(), r) != live.end();
    }
    if (!input.replicate_all) {
      ASSERT_EQ(domains.size(), ranks.size())
          << "shard " << s << ": two copies share a failure domain";
    }
    if (!holder_stays || std::find(live.begin(), live.end(), ranks[0]) != live.end()) continue;
    // The primary has no copy: allowed only for a member that had nothing at all.
    for (const auto& other : input.holders) {
      ASSERT_EQ(std::find(other.begin(), other.end(), ranks[0]), other.end())
          << "shard " << s << ": primary must fetch bytes";
    }
  }
  std::vector<int> load = loads(input, placement, false);
  std::sort(load.begin(), load.end());
  ASSERT_EQ(load, fair_loads(input, copies));
}

TEST(Placement, StartIsBalancedAndSpread) {
  for (int workers : {1, 2, 3, 4, 5, 8, 16}) {
    Cluster cluster{.shards = shard_count(16), .backups = 1};
    for (int w = 0; w < workers; ++w) cluster.workers.push_back({w, "n0"});
    const PlacementInput input = cluster.input();
    const Placement placement = place_shards(input);
    expect_valid(input, placement);
    const std::vector<int> primaries = loads(input, placement, true);
    const auto [low, high] = std::minmax_element(primaries.begin(), primaries.end());
    EXPECT_LE(*high - *low, 1);
    if (workers < 4) continue;
    std::map<std::pair<int, int>, int> pairs;  // the loss of one member must fall on several others
    int most = 0;
    for (const auto& ranks : placement.holders)
      most = std::max(most, ++pairs[{ranks[0].value(), ranks[1].value()}]);
    EXPECT_LE(most, 2 * 256 / (workers * (workers - 1)) + 6) << workers;
  }
}

TEST(Placement, UnchangedMembershipMovesNothing) {
  Cluster cluster{
      .shards = 64, .backups = 2, .workers = {{0, "a"}, {1, "a"}, {2, "b"}, {3, "c"}, {4, "c"}}};
  const Placement first = place_shards(cluster.input());
  cluster.adopt(first);
  EXPECT_EQ(place_shards(cluster.input()), first);
}

TEST(Placement, BackupBecomesPrimaryAndTheLoadIsShared) {
  Cluster cluster{.shards = 64, .backups = 1, .workers = {{0, "a"}, {1, "a"}, {2, "a"}, {3, "a"}}};
  cluster.adopt(place_shards(cluster.input()));
  cluster.workers.erase(cluster.workers.begin() + 1);
  const PlacementInput input = cluster.input();
  const Placement placement = place_shards(input);
  expect_valid(input, placement);
  for (int s = 0; s < 64; ++s) {
    const auto& live = input.holders[s];
    EXPECT_NE(std::find(live.begin(), live.end(), placement.holders[s][0]), live.end());
  }
  EXPECT_EQ(shards_moved(input, placement), 32);
  const std::vector<int> primaries = loads(input, placement, true);
  const auto [low, high] = std::minmax_element(primaries.begin(), primaries.end());
  EXPECT_LE(*high - *low, 1);
}

TEST(Placement, JoinerTakesItsShareOfPrimaries) {
  Cluster cluster{.shards = 64, .backups = 1, .workers = {{0, "a"}, {1, "a"}, {2, "a"}}};
  cluster.adopt(place_shards(cluster.input()));
  cluster.workers.push_back({3, "a"});
  const PlacementInput input = cluster.input();
  const Placement placement = place_shards(input);
  expect_valid(input, placement);
  EXPECT_EQ(shards_moved(input, placement), 32);
  for (int load : loads(input, placement, true)) EXPECT_EQ(load, 16);
}

TEST(Placement, LeavingMembersGetNothing) {
  Cluster cluster{.shards = 32, .backups = 0, .workers = {{0, "a"}, {1, "b"}, {2, "c"}}};
  cluster.adopt(place_shards(cluster.input()));
  PlacementInput input = cluster.input();
  input.members[0].leaving = true;
  const Placement placement = place_shards(input);
  for (const auto& ranks : placement.holders) EXPECT_NE(ranks[0], Rank(0));
}

TEST(Placement, DdpHoldsAllEverywhere) {
  Cluster cluster{
      .shards = 48, .backups = 0, .replicate_all = true, .workers = {{0, "a"}, {1, "b"}, {2, "b"}}};
  const Placement placement = place_shards(cluster.input());
  for (const auto& ranks : placement.holders) EXPECT_EQ(ranks.size(), 3u);
  for (int load : loads(cluster.input(), placement, true)) EXPECT_EQ(load, 16);
}

TEST(Placement, FewerDomainsThanCopiesIsDegradedNotStuck) {
  Cluster cluster{.shards = 32, .backups = 2, .workers = {{0, "a"}, {1, "a"}, {2, "b"}}};
  EXPECT_EQ(copies_wanted(cluster.input()), 2);
  cluster.workers.pop_back();
  EXPECT_EQ(copies_wanted(cluster.input()), 2);  // one node left: its processes are the domains
  cluster.workers.pop_back();
  EXPECT_EQ(copies_wanted(cluster.input()), 1);
  expect_valid(cluster.input(), place_shards(cluster.input()));
}

/// Random walks over memberships: nodes of several workers, joins, exits, whole nodes at once,
/// several changes in one generation, and holders that have only a part of what the last placement
/// gave them.
TEST(Placement, RandomWalksAreValidBalancedAndMoveTheLeast) {
  std::mt19937 random(20240607);
  const auto pick = [&](int n) { return static_cast<int>(random() % n); };
  int64_t moved_in_all = 0, least_in_all = 0;
  for (int walk = 0; walk < kWalks; ++walk) {
    const int most = 2 + pick(7);
    Cluster cluster{.shards = most * (walk % 64 == 0 ? 16 : 2), .backups = pick(3)};
    const int nodes = 1 + pick(5);
    int next_id = 0;
    const auto join = [&] {
      cluster.workers.insert(
          cluster.workers.begin() + pick(static_cast<int>(cluster.workers.size()) + 1),
          {next_id, fmt::format("n{}", pick(nodes))});
      ++next_id;
    };
    for (int i = 0; i <= pick(most); ++i) join();
    for (int change = 0; change < kChanges; ++change) {
      const PlacementInput input = cluster.input();
      const Placement placement = place_shards(input);
      ASSERT_NO_FATAL_FAILURE(expect_valid(input, placement))
          << "walk " << walk << " change " << change;
      const LeastMoves least(input, copies_wanted(input));
      ASSERT_EQ(least.flow(), cluster.shards * copies_wanted(input));
      const int64_t moved = shards_moved(input, placement);
      ASSERT_LE(moved, least.cost() + least.cost() / 10) << "walk " << walk << " change " << change;
      moved_in_all += moved;
      least_in_all += least.cost();
      cluster.adopt(placement);
      for (int i = 0; i <= pick(3); ++i) {
        const bool grow = cluster.workers.size() < static_cast<size_t>(most) &&
                          (cluster.workers.size() < 2 || pick(2));
        if (grow) {
          join();
        } else if (cluster.workers.size() > 1) {
          cluster.workers.erase(cluster.workers.begin() +
                                pick(static_cast<int>(cluster.workers.size())));
        }
      }
      if (pick(4) == 0) {  // a failure while second copies were still on their way
        for (auto& ids : cluster.holders) {
          if (ids.size() > 1 && pick(3) == 0) ids.pop_back();
        }
      }
    }
  }
  EXPECT_EQ(moved_in_all, least_in_all);
}

TEST(Placement, LargeJobsStayFast) {
  Cluster cluster{.shards = shard_count(256), .backups = 1};
  for (int w = 0; w < 256; ++w) cluster.workers.push_back({w, fmt::format("n{}", w / 8)});
  cluster.adopt(place_shards(cluster.input()));
  cluster.workers.erase(cluster.workers.begin() + 17);
  const PlacementInput input = cluster.input();
  const Placement placement = place_shards(input);
  expect_valid(input, placement);
  // What the lost member held, and the few shards that the node's share shrinks by.
  EXPECT_LE(shards_moved(input, placement), 2 * 4096 / 256 + 8);
}

TEST(MicroBatches, RangesAreContiguousAndBalanced) {
  for (int m = 1; m <= 24; ++m) {
    for (int w = 1; w <= m + 2; ++w) {
      int next = 0;
      for (const MicroBatchRange& range : micro_batch_ranges(m, w)) {
        EXPECT_EQ(range.begin, next);
        EXPECT_GE(range.size(), m / w);
        EXPECT_LE(range.size(), (m + w - 1) / w);
        next = range.end;
      }
      EXPECT_EQ(next, m);
    }
  }
}

TEST(MicroBatches, OnlyLostOnesAreComputedAgain) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    const int m = 1 + static_cast<int>(random() % 20), w = 1 + static_cast<int>(random() % 6);
    std::vector<std::vector<MicroBatchRange>> held(w);
    std::vector<bool> computes(w), has(m);
    for (int i = 0; i < 4; ++i) {
      const int begin = static_cast<int>(random() % (m + 3)) - 1;
      const MicroBatchRange range{begin, begin + static_cast<int>(random() % 5)};
      held[random() % w].push_back(range);
      for (int k = std::max(0, range.begin); k < std::min(m, range.end); ++k) has[k] = true;
    }
    for (int r = 0; r < w; ++r) computes[r] = r == 0 || random() % 4;
    const auto shares = reassign_micro_batches(m, held, computes);
    std::vector<int> kept(m), computed(m), sizes;
    for (int r = 0; r < w; ++r) {
      int size = 0;
      for (const auto& range : shares[r].keep) {
        for (int k = range.begin; k < range.end; ++k) ++kept[k];
      }
      for (const auto& range : shares[r].compute) {
        size += range.size();
        for (int k = range.begin; k < range.end; ++k) ++computed[k];
      }
      if (computes[r]) {
        sizes.push_back(size);
      } else {
        EXPECT_EQ(size, 0);
      }
    }
    for (int k = 0; k < m; ++k) {
      EXPECT_EQ(kept[k], has[k] ? 1 : 0);
      EXPECT_EQ(computed[k], has[k] ? 0 : 1);
    }
    const auto [low, high] = std::minmax_element(sizes.begin(), sizes.end());
    EXPECT_LE(*high - *low, 1);
  }
}

}  // namespace
}  // namespace craton::cluster
