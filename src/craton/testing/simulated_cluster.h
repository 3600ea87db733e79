#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "craton/cluster/membership.h"
#include "craton/testing/simulated_worker.h"

namespace craton::testing {

/// One schedule: everything that happens follows from the seed.
struct SimulationOptions {
  uint64_t seed = 1;
  int workers = 3;
  int max_workers = 4;
  int increment = 1;  ///< sizes are multiples of it
  int nodes = 4;      ///< workers are started on these in turn
  int spares = 0;
  cluster::JobShape shape{.shards = 4, .micro_batches = 6, .backups = 1};
  bool keeps_sums = true;
  int64_t steps = 4;
  int faults = 3;          ///< budget of kills, pauses, suspicions, operator restarts
  int changes = 2;         ///< budget of scale, drain and join requests
  int fault_one_in = 120;  ///< events between faults, on average
  bool operator_faults = true;
  Mutation mutation = Mutation::kNone;
  bool trace = false;  ///< print what happens
};

struct SimulationResult {
  std::optional<std::string> violation;  ///< the first invariant that broke
  int events = 0;
  int generations = 0;
  int losses = 0;  ///< declared losses of state (all of them justified, if there is no violation)
  int roll_forwards = 0, recomputations = 0;
  int commits = 0;
  int rests = 0;          ///< workers that a size had no place for and that stayed beside the job
  int resized_steps = 0;  ///< committed with another number of micro-batches than the one before
  size_t largest_state = 0;  ///< most workers and reports that the operator knew at once
};

/// Runs a job to its end with the real operator and simulated workers, network and faults. After
/// every event it checks:
/// * one history: each step is committed with one attempt's gradients, in all generations and by
/// zombies too;
/// * nothing is applied before its commit; at the commit every holder that lives has the slot;
/// * no loss is declared while fewer failure domains than copies are gone, nor while a fenced
/// holder that answers still lives;
/// * every value equals that of an undisturbed run; each micro-batch counts once in a step;
/// * the job makes progress when the faults stop, and ends.
SimulationResult simulate(const SimulationOptions& options);

}  // namespace craton::testing
