#include "craton/cluster/failure_detector.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace craton::cluster {
namespace {

/// The time a phase may go without a change; 0: no limit.
Duration limit_of(const FailureDetectorOptions& options, StepPhase phase) {
  switch (phase) {
    case StepPhase::kValidation:
      return options.validation_timeout;
    case StepPhase::kCheckpoint:
      return options.checkpoint_timeout;
    case StepPhase::kStarting:
      return options.starting_timeout;
    default:
      return options.hang_timeout;
  }
}

auto position(const ProgressWord& word) {
  return std::tuple(word.step, word.operation, word.phase);
}

void wake(Suspicion& result, Instant at) {
  result.wake_at = result.wake_at ? std::min(*result.wake_at, at) : at;
}

bool find_silent(const FailureDetectorOptions& options, std::span<const WorkerObservation> members,
                 Instant now, Suspicion& result) {
  for (const WorkerObservation& m : members) {
    const Instant deadline = m.last_heartbeat + options.heartbeat_timeout;
    if (now < deadline) {
      wake(result, deadline);
      continue;
    }
    result.workers.push_back(m.worker);
    if (result.reason.empty()) {
      result.reason = fmt::format("no heartbeat from node {} for {} ms", m.node,
                                  (now - m.last_heartbeat).count());
    }
  }
  return !result.workers.empty();
}

}  // namespace

Suspicion find_suspects(const FailureDetectorOptions& options,
                        std::span<const WorkerObservation> members, Instant now) {
  Suspicion result;
  if (members.empty() || find_silent(options, members, now, result)) return result;

  // A wait is the fault of whoever it waits for, so only those that do not wait have a limit; if
  // all wait, the wait itself has one.
  // Whoever has left the generation waits too: for the next one.
  const bool all_wait = std::all_of(members.begin(), members.end(), [](const auto& m) {
    return m.progress.waiting || m.progress.phase == StepPhase::kFenced;
  });
  Instant last_move = members[0].progress_since;
  for (const WorkerObservation& m : members) last_move = std::max(last_move, m.progress_since);
  if (all_wait) {
    const Instant deadline = last_move + options.hang_timeout;
    if (now < deadline) {
      wake(result, deadline);
      return result;
    }
    const auto behind = std::min_element(
        members.begin(), members.end(),
        [](const auto& a, const auto& b) { return position(a.progress) < position(b.progress); });
    const bool same = std::all_of(members.begin(), members.end(), [&](const auto& m) {
      return position(m.progress) == position(behind->progress);
    });
    result.stalled = true;
    result.reason =
        same ? fmt::format("all {} workers wait in step {}, operation {}", members.size(),
                           behind->progress.step.value(), behind->progress.operation)
             : fmt::format("all {} workers wait, in different operations", members.size());
    return result;
  }

  const WorkerObservation* culprit = nullptr;
  for (const WorkerObservation& m : members) {
    if (m.progress.waiting || m.progress.phase == StepPhase::kFenced) continue;
    if (!culprit || position(m.progress) < position(culprit->progress)) culprit = &m;
  }
  if (!culprit) return result;
  const Duration limit = limit_of(options, culprit->progress.phase);
  if (limit.count() == 0) return result;
  // Peers' moves count only in phases of the step: there everybody must move for anybody to go on.
  const bool in_step = culprit->progress.phase != StepPhase::kStarting &&
                       culprit->progress.phase != StepPhase::kValidation &&
                       culprit->progress.phase != StepPhase::kCheckpoint;
  const Instant since = in_step ? last_move : culprit->progress_since;
  if (now < since + limit) {
    wake(result, since + limit);
    return result;
  }
  for (const WorkerObservation& m : members) {
    if (!m.progress.waiting && position(m.progress) == position(culprit->progress))
      result.workers.push_back(m.worker);
  }
  // Had all been equally late, fencing all of them would end the job: then only a new generation is
  // asked for.
  if (result.workers.size() == members.size() && members.size() > 1) {
    result.workers.clear();
    result.stalled = true;
  }
  result.reason = fmt::format(
      "did not arrive: step {}, operation {}, unchanged for {} ms while the others wait",
      culprit->progress.step.value(), culprit->progress.operation,
      (now - culprit->progress_since).count());
  return result;
}

}  // namespace craton::cluster
