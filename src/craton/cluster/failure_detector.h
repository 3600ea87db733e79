#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "craton/cluster/messages.h"

namespace craton::cluster {

/// Where a worker is in its step, in the order of the step. Part of the progress word in shared
/// memory.
enum class StepPhase : uint8_t {
  kStarting,
  kCompute,
  kReduce,
  kStore,
  kCommit,
  kApply,
  kGather,
  kValidation,  ///< may take longer than any step
  kCheckpoint,  ///< likewise
  kFenced,      ///< reported; waits for a decision
};

/// What a worker writes and its agent reads.
struct ProgressWord {
  StepPhase phase = StepPhase::kStarting;
  Step step;
  uint64_t operation = 0;  ///< collective operation number within the generation; grows
  bool waiting = false;    ///< inside a wait for peers: it has arrived

  bool operator==(const ProgressWord&) const = default;
};

struct WorkerObservation {
  WorkerId worker;
  std::string node;
  Instant last_heartbeat;  ///< of its agent, as the operator heard it
  ProgressWord progress;
  Instant progress_since;  ///< since when the word is unchanged, by the observer's clock
};

struct FailureDetectorOptions {
  Duration heartbeat_timeout{3000};
  Duration hang_timeout{60000};
  Duration validation_timeout{0};  ///< 0: no limit
  Duration checkpoint_timeout{0};
  Duration starting_timeout{600000};
};

struct Suspicion {
  std::vector<WorkerId>
      workers;  ///< that should be fenced, all at once: a lost node is one failure
  /// Everybody waits and nobody is to blame (a lost message): a new generation with the same
  /// members helps.
  bool stalled = false;
  std::string reason;
  std::optional<Instant> wake_at;  ///< when to look again, if nothing changes
};

/// Looks at the members of a generation that is decided.
///
/// Lost heartbeats: all workers of the silent agents. Hang: only if nobody has moved for
/// `hang_timeout`; then the culprits are those that did not arrive: not waiting, and furthest
/// behind in (step, operation, phase). A phase with a limit of its own is judged by that alone, and
/// while a worker is in one, nobody is suspected for waiting for it.
Suspicion find_suspects(const FailureDetectorOptions& options,
                        std::span<const WorkerObservation> members, Instant now);

}  // namespace craton::cluster
