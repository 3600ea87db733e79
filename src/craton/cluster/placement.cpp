#include "craton/cluster/placement.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include "craton/base/check.h"
#include "craton/cluster/flow_network.h"

namespace craton::cluster {
namespace {

/// A fixed permutation. It spreads each member's part over the shards, so that the shards of one
/// primary get many different backups and the loss of a member is shared by all. `last`: only so
/// many at the end are drawn, out of all.
template <typename T>
void shuffle(std::vector<T>& list, uint64_t seed,
             size_t last = std::numeric_limits<size_t>::max()) {
  uint64_t state = seed * 0x9e3779b97f4a7c15u + 0x632be59bd9b4e019u;
  for (size_t i = list.size(); i > 1 && last > 0; --i, --last) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    std::swap(list[i - 1], list[(state >> 33) % i]);
  }
}

/// A shard that moves is offered to so many domains at first: in a job of hundreds of nodes the
/// offers to all would be most of the work, and these are enough but for rare shapes.
constexpr size_t kOffers = 16;

/// How many shards each member may hold: `base`, and some members one more.
struct Quotas {
  std::vector<int> base;           // by rank
  std::vector<bool> domain_full;   // by domain: it holds one copy of every shard
  std::vector<int> domain_extras;  // by domain: how many of its members may hold one more
  int shared_extras = 0;  // how many members may hold one more, over all domains that are not full
};

std::vector<int> members_by_domain(const PlacementInput& input) {
  std::vector<int> count;
  for (const PlacementMember& member : input.members) {
    if (static_cast<size_t>(member.domain) >= count.size()) count.resize(member.domain + 1);
    if (!member.leaving) ++count[member.domain];
  }
  return count;
}

/// Fills all members evenly, as water; a domain stops at one copy of every shard.
Quotas find_quotas(const PlacementInput& input, int copies) {
  const std::vector<int> size = members_by_domain(input);
  const int shards = static_cast<int>(input.holders.size());
  const int64_t total = static_cast<int64_t>(shards) * copies;
  const auto filled = [&](int level) {
    int64_t sum = 0;
    for (int n : size) sum += std::min<int64_t>(shards, static_cast<int64_t>(n) * level);
    return sum;
  };
  int level = 0;
  for (int step = 1 << 30; step > 0; step /= 2) {
    if (level + step <= shards && filled(level + step) <= total) level += step;
  }
  Quotas quotas;
  quotas.shared_extras = static_cast<int>(total - filled(level));
  for (int n : size) {
    const int64_t have = static_cast<int64_t>(n) * level;
    const bool full = n > 0 && have >= shards;
    quotas.domain_full.push_back(full);
    quotas.domain_extras.push_back(full ? shards % n
                                        : static_cast<int>(std::min<int64_t>(n, shards - have)));
  }
  for (const PlacementMember& member : input.members) {
    const int d = member.domain;
    quotas.base.push_back(member.leaving ? 0 : quotas.domain_full[d] ? shards / size[d] : level);
  }
  return quotas;
}

/// The assignment as a flow: shard -> (shard, domain) at most once -> member -> quota. Keeping a
/// copy costs nothing, a copy that must be moved costs one and goes through the pool of its domain,
/// since any member there will do.
class Assignment {
 public:
  /// `offers`: domains that a shard may move to.
  Assignment(const PlacementInput& input, int copies, size_t offers)
      : input_(input),
        offers_(offers),
        shards_(static_cast<int>(input.holders.size())),
        members_(static_cast<int>(input.members.size())),
        network_(2 + shards_ + 2 * members_) {
    add_quotas(find_quotas(input, copies));
    for (int s = 0; s < shards_; ++s) {
      network_.add_edge(kSource, shard_node(s), copies);
      add_shard(s);
    }
    complete_ = network_.run(kSource, kSink) == static_cast<int64_t>(shards_) * copies;
  }

  /// Every copy has found a place.
  bool complete() const { return complete_; }

  std::vector<std::vector<Rank>> holders() {
    std::vector<std::vector<Rank>> result(shards_);
    for (const auto& [edge, shard, rank] : kept_) {
      if (network_.flow(edge) > 0) result[shard].push_back(rank);
    }
    // What a pool received is handed to its members; the flow fixed only how many each takes.
    std::vector<std::vector<Rank>> takers(pools_.size());
    for (int m = 0; m < members_; ++m) {
      if (pool_edge_[m] < 0) continue;
      auto& list = takers[input_.members[m].domain];
      list.insert(list.end(), network_.flow(pool_edge_[m]), Rank(m));
    }
    for (size_t d = 0; d < takers.size(); ++d) shuffle(takers[d], d);
    for (const auto& [edge, shard, domain] : moved_) {
      if (network_.flow(edge) == 0) continue;
      result[shard].push_back(takers[domain].back());
      takers[domain].pop_back();
    }
    return result;
  }

 private:
  static constexpr int kSource = 0, kSink = 1;
  int shard_node(int s) const { return 2 + s; }
  int member_node(int m) const { return 2 + shards_ + m; }

  void add_quotas(const Quotas& quotas) {
    const int shared = network_.add_node();
    network_.add_edge(shared, kSink, quotas.shared_extras);
    std::vector<int> extra;
    for (size_t d = 0; d < quotas.domain_full.size(); ++d) {
      order_.push_back(static_cast<int>(d));
      pools_.push_back(network_.add_node());
      extra.push_back(network_.add_node());
      network_.add_edge(extra[d], quotas.domain_full[d] ? kSink : shared, quotas.domain_extras[d]);
    }
    for (int m = 0; m < members_; ++m) {
      pool_edge_.push_back(-1);
      if (input_.members[m].leaving) continue;
      const int d = input_.members[m].domain;
      network_.add_edge(member_node(m), kSink, quotas.base[m]);
      network_.add_edge(member_node(m), extra[d], 1);
      pool_edge_[m] = network_.add_edge(pools_[d], member_node(m), shards_);
    }
  }

  void add_shard(int s) {
    std::map<int32_t, int> door;  // by domain with a live copy: the node that lets one copy through
    for (Rank rank : input_.holders[s]) {
      const PlacementMember& member = input_.members[rank.value()];
      if (member.leaving) continue;
      if (!door.contains(member.domain)) {
        const int node = door[member.domain] = network_.add_node();
        network_.add_edge(shard_node(s), node, 1);
        moved_.push_back({network_.add_edge(node, pools_[member.domain], 1, 1), s, member.domain});
      }
      kept_.push_back(
          {network_.add_edge(door[member.domain], member_node(rank.value()), 1), s, rank});
    }
    // Each shard looks at the domains in an order of its own: neighbours of one shard are strangers
    // in the next.
    const size_t looked_at = std::min(order_.size(), offers_ + door.size());
    shuffle(order_, s, looked_at);
    for (size_t i = order_.size() - looked_at; i < order_.size(); ++i) {
      const int d = order_[i];
      if (!door.contains(d))
        moved_.push_back({network_.add_edge(shard_node(s), pools_[d], 1, 1), s, d});
    }
  }

  struct Kept {
    int edge, shard;
    Rank rank;
  };
  struct Moved {
    int edge, shard, domain;
  };
  const PlacementInput& input_;
  size_t offers_;
  int shards_, members_;
  bool complete_ = false;
  FlowNetwork network_;
  std::vector<int> pools_, pool_edge_, order_;
  std::vector<Kept> kept_;
  std::vector<Moved> moved_;
};

std::vector<std::vector<Rank>> assign(const PlacementInput& input, int copies) {
  if (Assignment few(input, copies, kOffers); few.complete()) return few.holders();
  Assignment all(input, copies, input.members.size());
  CRATON_CHECK(all.complete(), "{} copies of {} shards find no place on {} members", copies,
               input.holders.size(), input.members.size());
  return all.holders();
}

/// Chooses each shard's primary among its holders.
class Primaries {
 public:
  Primaries(const PlacementInput& input, std::vector<std::vector<Rank>>& holders)
      : holders_(holders), load_(input.members.size()) {
    std::vector<bool> has_any(input.members.size(), input.replicate_all);
    for (const auto& ranks : input.holders) {
      for (Rank r : ranks) has_any[r.value()] = true;
    }
    allowed_.resize(holders.size());
    for (size_t s = 0; s < holders.size(); ++s) {
      const auto& live = input.holders[s];
      const auto is_live = [&](Rank r) {
        return std::find(live.begin(), live.end(), r) != live.end();
      };
      const bool any_live = std::any_of(holders[s].begin(), holders[s].end(), is_live);
      for (Rank r : holders[s]) {
        if (!any_live || is_live(r) || !has_any[r.value()]) allowed_[s].push_back(r);
      }
    }
    choose_first(input);
    while (improve()) {
    }
    for (size_t s = 0; s < holders.size(); ++s) {
      std::sort(holders[s].begin(), holders[s].end());
      const auto at = std::find(holders[s].begin(), holders[s].end(), primary_[s]);
      std::rotate(holders[s].begin(), at, at + 1);
    }
  }

 private:
  void choose_first(const PlacementInput& input) {
    primary_.resize(holders_.size());
    std::vector<size_t> orphans;
    for (size_t s = 0; s < holders_.size(); ++s) {
      const auto& live = input.holders[s];
      if (!live.empty() &&
          std::find(allowed_[s].begin(), allowed_[s].end(), live.front()) != allowed_[s].end()) {
        primary_[s] = live.front();
        ++load_[primary_[s].value()];
      } else {
        orphans.push_back(s);
      }
    }
    for (size_t s : orphans) {
      primary_[s] = *std::min_element(allowed_[s].begin(), allowed_[s].end(), [&](Rank a, Rank b) {
        return load_[a.value()] < load_[b.value()];
      });
      ++load_[primary_[s].value()];
    }
  }

  /// Passes one primary along a chain of holders from a member to one that has at least two fewer;
  /// false when there is no such pair.
  bool improve() {
    std::vector<std::vector<size_t>> led(load_.size());
    for (size_t s = 0; s < primary_.size(); ++s) led[primary_[s].value()].push_back(s);
    std::vector<size_t> order(load_.size());
    for (size_t m = 0; m < order.size(); ++m) order[m] = m;
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return load_[a] > load_[b]; });
    std::vector<bool> seen(
        load_.size(),
        false);  // a member reached from a fuller start leads nowhere from a lower one either
    for (size_t start : order) {
      if (seen[start]) continue;
      if (improve_from(start, led, seen)) return true;
    }
    return false;
  }

  bool improve_from(size_t start, const std::vector<std::vector<size_t>>& led,
                    std::vector<bool>& seen) {
    std::vector<std::optional<size_t>> through(
        load_.size());  // the shard over which a member was reached
    std::vector<size_t> queue{start};
    seen[start] = true;
    for (size_t i = 0; i < queue.size(); ++i) {
      for (size_t s : led[queue[i]]) {
        for (Rank r : allowed_[s]) {
          const size_t m = r.value();
          if (seen[m]) continue;
          seen[m] = true;
          through[m] = s;
          if (load_[m] + 2 <= load_[start]) {
            pass_along(start, m, through);
            return true;
          }
          queue.push_back(m);
        }
      }
    }
    return false;
  }

  void pass_along(size_t start, size_t end, const std::vector<std::optional<size_t>>& through) {
    ++load_[end];
    --load_[start];
    for (size_t m = end; m != start;) {
      const size_t s = *through[m];
      const size_t before = primary_[s].value();
      primary_[s] = Rank(static_cast<int32_t>(m));
      m = before;
    }
  }

  std::vector<std::vector<Rank>>& holders_;
  std::vector<std::vector<Rank>> allowed_;
  std::vector<int> load_;
  std::vector<Rank> primary_;
};

}  // namespace

int shard_count(int max_workers) { return 16 * max_workers; }

std::vector<int32_t> failure_domains(const std::vector<std::string>& nodes) {
  std::map<std::string, int32_t> number;
  for (const std::string& node : nodes)
    number.try_emplace(node, static_cast<int32_t>(number.size()));
  std::vector<int32_t> domains;
  for (const std::string& node : nodes) {
    domains.push_back(number.size() > 1 ? number[node] : static_cast<int32_t>(domains.size()));
  }
  return domains;
}

int copies_wanted(const PlacementInput& input) {
  const std::vector<int> size = members_by_domain(input);
  const auto members = static_cast<int>(std::count_if(input.members.begin(), input.members.end(),
                                                      [](const auto& m) { return !m.leaving; }));
  if (input.replicate_all) return members;
  const auto domains = std::count_if(size.begin(), size.end(), [](int n) { return n > 0; });
  const int groups = input.shard_group > 0 ? members / input.shard_group : 1;
  return std::min(std::max(1 + input.backups, groups), static_cast<int>(domains));
}

Placement place_shards(const PlacementInput& input) {
  const int copies = copies_wanted(input);
  CRATON_CHECK(copies > 0, "no member can hold a shard");
  Placement placement;
  if (input.replicate_all) {
    std::vector<Rank> everybody;
    for (size_t m = 0; m < input.members.size(); ++m) {
      if (!input.members[m].leaving) everybody.push_back(Rank(static_cast<int32_t>(m)));
    }
    placement.holders.assign(input.holders.size(), everybody);
  } else {
    placement.holders = assign(input, copies);
  }
  Primaries(input, placement.holders);
  return placement;
}

int64_t shards_moved(const PlacementInput& input, const Placement& placement) {
  int64_t moved = 0;
  for (size_t s = 0; s < placement.holders.size(); ++s) {
    const auto& live = input.holders[s];
    for (Rank r : placement.holders[s])
      moved += std::find(live.begin(), live.end(), r) == live.end();
  }
  return moved;
}

}  // namespace craton::cluster
