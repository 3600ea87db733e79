#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "craton/base/strong.h"

namespace craton::cluster {

/// Shards of a job: 16 per worker at its largest size, so that every smaller size is balanced
/// within a few percent. Fixed for the job: shards are never cut by the number of workers.
int shard_count(int max_workers);

/// A member as placement sees it; its index is its rank.
struct PlacementMember {
  int32_t domain = 0;    ///< failure domain, 0..n-1 (`failure_domains`)
  bool leaving = false;  ///< still a donor, but gets no shard
};

struct PlacementInput {
  int backups = 1;             ///< wanted second copies, 0..2
  bool replicate_all = false;  ///< ddp: every member holds every shard
  int shard_group = 0;         ///< > 0: each so many members hold a copy of the whole state
  std::vector<PlacementMember> members;
  /// Per shard: the ranks of members with a complete copy, a live primary first. Empty lists at the
  /// start of a job.
  std::vector<std::vector<Rank>> holders;
};

struct Placement {
  /// Per shard: primary, then backups.
  std::vector<std::vector<Rank>> holders;

  bool operator==(const Placement&) const = default;
};

/// Failure domains of workers by the node they run on: the node, or with a single node the process.
std::vector<int32_t> failure_domains(const std::vector<std::string>& nodes);

/// min(1 + backups or whole shard groups, whichever is more; live failure domains): fewer copies
/// than asked for is a state that is reported, not a deadlock.
int copies_wanted(const PlacementInput& input);

/// Who holds what in the next generation. A pure function with these properties, in this order:
/// 1. each shard has `copies_wanted` holders, no two in one failure domain;
/// 2. members hold equal numbers of shards, within one; a domain with few workers may be full (it
/// never needs more than
///    one copy of each shard), then the rest is shared equally by the others;
/// 3. the fewest possible shards are copied to members that do not have them (a minimum-cost flow
/// finds the minimum);
/// 4. a shard's primary has the bytes already, so that a backup becomes primary without moving any.
/// Only a member that
///    holds nothing yet takes primaries of shards that move to it anyhow; within this, primaries
///    are equal within one.
///
/// Unchanged members keep an unchanged placement. Needs one member that is not leaving. Time grows
/// with the number of shards.
Placement place_shards(const PlacementInput& input);

/// Shards that `placement` gives to members without a copy: what has to be moved.
int64_t shards_moved(const PlacementInput& input, const Placement& placement);

}  // namespace craton::cluster
