#include "craton/cluster/strategy_costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "craton/base/error.h"
#include "craton/base/units.h"

namespace craton::cluster {
namespace {

/// Backward takes two thirds of the computation.
constexpr double kBackwardShare = 2.0 / 3;

/// Elements of a bucket by DeepSpeed's default.
constexpr double kDefaultBucket = 5e8;

/// Bytes per second of a worker in a ring over `workers`: the slowest hop decides.
double bandwidth(const WorkerCosts& w, int64_t workers) {
  return workers > w.workers_per_node ? w.network_bytes_per_second : w.node_bytes_per_second;
}

double ring_seconds(const WorkerCosts& w, int64_t workers, double bytes, double collectives) {
  if (workers <= 1) return 0;
  return bytes / bandwidth(w, workers) +
         collectives * w.latency_seconds * static_cast<double>(workers - 1);
}

void finish(StrategyCosts& c, const ModelCosts& model, const WorkerCosts& worker,
            const StepCosts& step, int64_t workers) {
  c.memory_bytes +=
      model.activation_bytes_per_sample * step.samples_per_worker / step.micro_batches_per_worker;
  c.samples_per_second = step.samples_per_worker * static_cast<double>(workers) / c.step_seconds();
  c.efficiency = c.compute_seconds / c.step_seconds();
  c.fits = worker.memory_bytes == 0 || c.memory_bytes <= worker.memory_bytes;
}

}  // namespace

StrategyCosts strategy_costs(const std::string& strategy, const ModelCosts& model,
                             const WorkerCosts& worker, const StepCosts& step, int64_t workers) {
  const double p = model.parameters, w = static_cast<double>(workers), v = (w - 1) / w;
  const double g = step.micro_batches_per_worker, b = step.backups;
  const double sums = 4 * p / w * (std::ceil(std::log2(std::max(g, 1.0))) + 1);
  const double param = step.parameter_bytes, grad = step.gradient_bytes;
  StrategyCosts c;
  c.strategy = strategy;
  c.compute_seconds = model.flops_per_sample * step.samples_per_worker / worker.flops;
  const double backward = kBackwardShare * c.compute_seconds;
  const double all_at_once = ring_seconds(worker, workers, grad * p * v, 1);
  const double gather = ring_seconds(worker, workers, param * p * v, 1);
  const double backup = grad * p * b / w;
  if (strategy == "ddp") {
    c.memory_bytes = 20 * p;
    c.sent_bytes = 2 * grad * p * v;
    c.communication_seconds = 2 * all_at_once;
    c.hidden_seconds = std::min(c.communication_seconds, backward / g);
  } else if (strategy == "zero1") {
    c.memory_bytes = 8 * p + (12 + 12 * b) * p / w;
    c.sent_bytes = (grad + param) * p * v + backup;
    c.communication_seconds = all_at_once + gather;
    c.hidden_seconds = std::min(all_at_once, backward / g);
  } else if (strategy == "zero2") {
    c.memory_bytes = 4 * p + (12 + 12 * b) * p / w + sums;
    c.sent_bytes = (grad * g + param) * p * v + backup;
    c.communication_seconds = g * all_at_once + gather;
    c.hidden_seconds = std::min(g * all_at_once, backward);
  } else if (strategy == "zero3" || strategy == "fsdp") {
    c.memory_bytes = (16 + 16 * b) * p / w + sums + 8 * p / model.blocks;
    c.sent_bytes = (grad * g + param) * p * v + backup;
    c.communication_seconds =
        g * all_at_once + ring_seconds(worker, workers, param * p * v, model.blocks);
    c.hidden_seconds = std::min(c.communication_seconds, c.compute_seconds);
  } else {
    fail(ErrorCode::kInvalidArgument, "no costs are known of strategy '{}'", strategy);
  }
  finish(c, model, worker, step, workers);
  return c;
}

StrategyCosts published_costs(const std::string& system, const ModelCosts& model,
                              const WorkerCosts& worker, const StepCosts& step, int64_t workers) {
  const double p = model.parameters, w = static_cast<double>(workers), v = (w - 1) / w;
  StrategyCosts c;
  c.strategy = system;
  c.compute_seconds = model.flops_per_sample * step.samples_per_worker / worker.flops;
  if (system == "ZeRO-2") {
    const double buckets = std::ceil(p / kDefaultBucket);
    c.memory_bytes = 2 * p + 14 * p / w + 4 * kDefaultBucket;
    c.sent_bytes = 6 * p * v;  // its gradients are all-reduced
    c.communication_seconds = ring_seconds(worker, workers, c.sent_bytes, 3 * buckets);
    // Only reduction runs beside backward; the gather stands alone.
    c.hidden_seconds = std::min(ring_seconds(worker, workers, 4 * p * v, 2 * buckets),
                                kBackwardShare * c.compute_seconds);
  } else if (system == "FSDP2" || system == "ZeRO-3") {
    const double pieces = system == "FSDP2" ? model.blocks : model.blocks * model.tensors_per_block;
    c.memory_bytes = 16 * p / w + 8 * p / model.blocks;
    c.sent_bytes = 6 * p * v;
    c.communication_seconds = ring_seconds(worker, workers, c.sent_bytes, 3 * pieces);
    // Bytes hide behind computation; a block's own first gather and the hops in front of it do not.
    c.hidden_seconds = std::min(ring_seconds(worker, workers, c.sent_bytes, 0), c.compute_seconds) *
                       (1 - 1 / model.blocks);
  } else {
    fail(ErrorCode::kInvalidArgument, "no published figures are known of '{}'", system);
  }
  finish(c, model, worker, step, workers);
  return c;
}

Recommendation recommend(const std::vector<StrategyCosts>& costs) {
  const StrategyCosts* fastest = nullptr;
  for (const StrategyCosts& c : costs) {
    if (c.fits && (fastest == nullptr || c.samples_per_second > fastest->samples_per_second))
      fastest = &c;
  }
  if (fastest == nullptr) {
    return {"",
            "none fits in the memory of a worker: use more workers, a smaller micro-batch or a "
            "smaller model"};
  }
  const StrategyCosts* best = fastest;
  for (const StrategyCosts& c : costs) {
    if (c.fits && c.samples_per_second >= 0.98 * fastest->samples_per_second &&
        c.memory_bytes < best->memory_bytes)
      best = &c;
  }
  std::string reason = fmt::format("{:.4g} samples/s with {} per worker", best->samples_per_second,
                                   format_bytes(best->memory_bytes));
  if (best != fastest) {
    reason += fmt::format("; {} is {:.1f} % faster and takes {}", fastest->strategy,
                          100 * (fastest->samples_per_second / best->samples_per_second - 1),
                          format_bytes(fastest->memory_bytes));
  } else {
    reason += ": the fastest that fits";
  }
  return {best->strategy, reason};
}

}  // namespace craton::cluster
