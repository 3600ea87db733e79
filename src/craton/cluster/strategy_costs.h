#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace craton::cluster {

/// What a strategy's costs depend on, of the model.
struct ModelCosts {
  double parameters = 0;
  double blocks = 1;              ///< modules whose parameters are gathered together
  double tensors_per_block = 12;  ///< parameters of a block, for systems that gather each by itself
  double flops_per_sample = 0;    ///< forward and backward
  double activation_bytes_per_sample = 0;
};

/// One worker and the way to the others.
struct WorkerCosts {
  double flops = 0;         ///< sustained in this model
  double memory_bytes = 0;  ///< 0: not known
  int64_t workers_per_node = 1;
  double node_bytes_per_second = 0;     ///< per worker, within a node
  double network_bytes_per_second = 0;  ///< per worker, between nodes
  double latency_seconds = 10e-6;       ///< per hop of a collective
};

struct StepCosts {
  double samples_per_worker = 1;
  double micro_batches_per_worker = 1;
  double backups = 0;
  /// Of what computes and travels: 4 in Craton; 2 where bf16 stands beside fp32 master weights.
  double parameter_bytes = 4, gradient_bytes = 4;
};

/// A strategy at a number of workers, by formula.
struct StrategyCosts {
  std::string strategy;
  double memory_bytes = 0;  ///< of a worker
  double sent_bytes = 0;    ///< by a worker in a step
  double compute_seconds = 0;
  double communication_seconds = 0;
  double hidden_seconds = 0;  ///< of it, behind computation
  double step_seconds() const { return compute_seconds + communication_seconds - hidden_seconds; }
  double samples_per_second = 0;  ///< of all workers
  double efficiency = 0;          ///< against one worker without communication
  bool fits = true;
};

/// Craton's strategies, with W workers, G micro-batches of each, P parameters, b backups, v =
/// (W-1)/W and sums = 4 P/W (ceil(log2 G) + 1). Memory in bytes, activations come on top:
///
///   ddp          20 P
///   zero1        8 P + (12 + 12 b) P/W
///   zero2        4 P + (12 + 12 b) P/W + sums
///   zero3, fsdp  (16 + 16 b) P/W + sums + 8 P/blocks
///
/// Sent by a worker in a step, in bytes; backups add 4 P b/W:
///
///   ddp, zero1          8 P v
///   zero2, zero3, fsdp  4 P v (G + 1)   a window is sent once per step, however often it is read
///
/// What is sent while a worker computes is hidden as far as computing lasts: gradients behind
/// backward of the last micro-batch (all of them with zero2 and up), gathered parameters behind the
/// computation in front of them.
StrategyCosts strategy_costs(const std::string& strategy, const ModelCosts& model,
                             const WorkerCosts& worker, const StepCosts& step, int64_t workers);

/// The systems of the published comparison (1.8 B parameters, 128 accelerators): "ZeRO-2" and
/// "ZeRO-3" of DeepSpeed with its default buckets, and "FSDP2"; bf16, ring collectives. ZeRO-3
/// gathers each parameter by itself, FSDP2 a block at a time, ZeRO-2 buckets of 5e8 elements: with
/// many workers the hops of the small collectives decide.
StrategyCosts published_costs(const std::string& system, const ModelCosts& model,
                              const WorkerCosts& worker, const StepCosts& step, int64_t workers);

/// The fastest that fits; of those within 2 % of it the one that takes least memory. `reason` says
/// why in a sentence.
struct Recommendation {
  std::string strategy, reason;
};
Recommendation recommend(const std::vector<StrategyCosts>& costs);

}  // namespace craton::cluster
