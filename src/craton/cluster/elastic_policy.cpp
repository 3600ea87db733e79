#include "craton/cluster/elastic_policy.h"

#include <algorithm>

namespace craton::cluster {
namespace {

std::optional<Instant> earlier(std::optional<Instant> a, std::optional<Instant> b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

/// The moment from which more workers may be added voluntarily.
Instant growth_allowed_at(const ElasticPolicy& policy, const ObservedSize& o) {
  Instant at{0};
  if (o.ready_since) at = std::max(at, *o.ready_since + policy.stable_period);
  if (o.last_change) at = std::max(at, *o.last_change + policy.snooze);
  return at;
}

/// Survivors of a loss: go on smaller, go on with spares, or wait.
SizeDecision decide_stopped(const ElasticPolicy& policy, const ObservedSize& o, Instant now) {
  const int wanted = permitted_size(policy, std::min(o.requested, policy.max_workers));
  const int there = o.training + o.left_over + o.ready;
  int possible = permitted_size(policy, std::min(there, wanted));
  // Rather a member that was asked to go than no training at all.
  if (possible == 0) possible = permitted_size(policy, std::min(there + o.draining, wanted));
  if (possible == 0) return {.wait = true, .reason = "fewer workers than min_workers"};
  if (possible < wanted && o.starting > 0 && o.last_failure) {
    const Instant until = *o.last_failure + policy.wait_for_spare;
    if (now < until)
      return {
          .size = possible, .wait = true, .wake_at = until, .reason = "waits for a replacement"};
  }
  return {.size = possible,
          .change = possible != o.training + o.draining,
          .reason = "goes on with what is there"};
}

}  // namespace

int permitted_size(const ElasticPolicy& policy, int n) {
  n = std::min(n, policy.max_workers);
  if (!policy.sizes.empty()) {
    int best = 0;
    for (int size : policy.sizes) {
      if (size >= policy.min_workers && size <= n) best = std::max(best, size);
    }
    return best;
  }
  if (n < policy.min_workers) return 0;
  const int increment = std::max(1, policy.increment);
  return policy.min_workers + (n - policy.min_workers) / increment * increment;
}

Duration failure_backoff(const ElasticPolicy& policy, int failures) {
  if (failures < 2) return Duration(0);
  Duration wait = policy.failure_backoff;
  for (int i = 2; i < failures && wait < policy.failure_backoff_max; ++i) wait *= 2;
  return std::min(wait, policy.failure_backoff_max);
}

SizeDecision decide_size(const ElasticPolicy& policy, const ObservedSize& o, Instant now) {
  if (o.stopped) return decide_stopped(policy, o, now);
  const int current = o.training + o.draining;
  const int wanted = permitted_size(policy, std::min(o.requested, policy.max_workers));
  const int possible = permitted_size(policy, std::min(o.training + o.ready, wanted));
  SizeDecision keep{.size = current, .reason = "as wanted"};
  if (possible == 0) {  // only draining brings a running job here: it goes on until the replacement
                        // is ready or time is up
    keep.wake_at = o.drain_deadline;
    keep.reason =
        "a draining worker waits for its replacement: without it the job would fall below "
        "min_workers";
    return keep;
  }
  if (o.draining > 0) return {.size = possible, .change = true, .reason = "drain"};
  if (possible < current) return {.size = possible, .change = true, .reason = "scale down"};
  if (possible == current) return keep;

  const int replaced = permitted_size(policy, std::min(possible, o.proven));
  Instant allowed = growth_allowed_at(policy, o);
  if (o.failures > 0 && o.last_failure) {
    const Instant calm = *o.last_failure + failure_backoff(policy, o.failures);
    if (now < calm) {
      return {.size = current, .wake_at = calm, .reason = "backs off after repeated failures"};
    }
  }
  if (replaced > current)
    return {.size = o.explicit_request || now >= allowed ? possible : replaced,
            .change = true,
            .reason = "replaces a lost worker"};
  if (o.explicit_request)
    return {.size = possible, .change = true, .reason = "scale up on request"};
  if (now < allowed) {
    keep.wake_at = allowed;
    keep.reason = "new capacity must be stable first";
    return keep;
  }
  return {.size = possible, .change = true, .reason = "grows into new capacity"};
}

StartDecision decide_starts(const ElasticPolicy& policy, const ObservedSize& o, int spares,
                            Instant now) {
  const int wanted = permitted_size(policy, std::min(o.requested, policy.max_workers)) + spares;
  const int missing = wanted - (o.training + o.left_over + o.ready + o.starting);
  if (missing <= 0) return {};
  if (o.failures > 0 && o.last_failure) {
    const Instant calm = *o.last_failure + failure_backoff(policy, o.failures);
    if (now < calm) return {.count = 0, .wake_at = earlier(calm, std::nullopt)};
  }
  return {.count = missing};
}

}  // namespace craton::cluster
