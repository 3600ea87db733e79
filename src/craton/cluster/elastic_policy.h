#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "craton/cluster/messages.h"

namespace craton::cluster {

/// How far and how fast a job may change its size (`elastic:` in the recipe). Sizes count training
/// workers.
struct ElasticPolicy {
  int min_workers = 1;
  int max_workers = 1;
  int increment = 1;  ///< sizes are min, min + increment, ...
  std::vector<int>
      sizes;  ///< or exactly these, when not empty; those outside of min..max are ignored
  Duration stable_period{
      0};  ///< capacity beyond what the job had must have been there this long before it is used
  Duration snooze{0};          ///< no voluntary change so soon after a change
  Duration wait_for_spare{0};  ///< after a loss, how long survivors wait for a replacement that is
                               ///< on its way before they go on smaller
  Duration failure_backoff{
      1000};  ///< before the second replacement in a row; doubles with each further failure
  Duration failure_backoff_max{60000};
  Duration failure_memory{600000};  ///< quiet time after which failures are forgotten
  int failures_without_progress =
      10;  ///< so many losses without a single committed step end the job; 0: never
};

/// What the operator sees at one moment.
struct ObservedSize {
  int training = 0;   ///< members that train and may stay
  int draining = 0;   ///< members that train and were asked to go
  int ready = 0;      ///< warm workers beside the job
  int left_over = 0;  ///< members that the size has no place for, about to be warm workers
  int starting = 0;   ///< asked for, not ready yet
  int requested = 0;  ///< by the recipe or `craton scale`
  int proven = 0;     ///< largest size that the job had since the last request; up to it, growing
                      ///< replaces what was lost
  bool explicit_request =
      false;             ///< a user's request that was not met yet: no stable period, no snooze
  bool stopped = false;  ///< nobody computes at the moment (a loss is being handled)
  std::optional<Instant> ready_since;  ///< since when the warm workers are there
  std::optional<Instant> last_change;  ///< of membership
  std::optional<Instant> last_failure;
  int failures = 0;  ///< in a row
  std::optional<Instant>
      drain_deadline;  ///< earliest moment at which a draining member will be taken away
};

struct SizeDecision {
  int size = 0;                    ///< training workers wanted in the next generation
  bool change = false;             ///< open a generation for it now
  bool wait = false;               ///< stopped jobs: do not go on yet
  std::optional<Instant> wake_at;  ///< when to ask again, if nothing else happens
  std::string_view reason;

  bool operator==(const SizeDecision&) const = default;
};

/// Largest allowed size that is at most `n`; 0 if there is none.
int permitted_size(const ElasticPolicy& policy, int n);

/// How long to wait before the next replacement after so many failures in a row; the first is
/// replaced at once.
Duration failure_backoff(const ElasticPolicy& policy, int failures);

SizeDecision decide_size(const ElasticPolicy& policy, const ObservedSize& observed, Instant now);

/// Workers to start now, so that `requested` train and `spares` stand by; 0 while failures back off
/// (`wake_at` says until when).
struct StartDecision {
  int count = 0;
  std::optional<Instant> wake_at;

  bool operator==(const StartDecision&) const = default;
};
StartDecision decide_starts(const ElasticPolicy& policy, const ObservedSize& observed, int spares,
                            Instant now);

}  // namespace craton::cluster
