#include "craton/recipe/read_elastic.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "craton/recipe/bounds.h"

namespace craton::recipe {
namespace {

constexpr double kLargestFactor = 1000;

/// Sizes that the job may have, ascending.
std::vector<int64_t> possible_sizes(const ParallelRecipe& parallel, const ElasticRecipe& elastic) {
  std::vector<int64_t> sizes = elastic.sizes;
  std::sort(sizes.begin(), sizes.end());
  if (!sizes.empty()) return sizes;
  for (int64_t n = parallel.min_workers; n <= parallel.max_workers; n += elastic.increment)
    sizes.push_back(n);
  return sizes;
}

/// A factor for each size, and nothing that is given for nothing.
void check_learning_rate(const Settings& s, const ElasticRecipe& e,
                         const ParallelRecipe& parallel) {
  if (!e.scales_batch && e.learning_rate != "none") {
    s.reject("learning_rate",
             fmt::format("{} has no effect while elastic.batch is keep: the batch is the same with "
                         "any number of workers; set elastic.batch to scale, or leave it out",
                         e.learning_rate));
  }
  if (e.learning_rate != "table") {
    if (!e.learning_rate_table.empty())
      s.reject(
          "learning_rate_table",
          fmt::format("is read with elastic.learning_rate table only, found {}", e.learning_rate));
    return;
  }
  if (e.learning_rate_table.empty()) {
    s.reject("learning_rate",
             "table needs elastic.learning_rate_table, a factor for each number of workers, such "
             "as {2: 0.7, 4: 1}");
  }
  for (const auto& [workers, factor] : e.learning_rate_table) {
    if (workers < 1 || workers > kMostWorkers || !(factor > 0 && factor <= kLargestFactor)) {
      s.reject("learning_rate_table",
               fmt::format("expected factors above 0 and at most {} for 1 to {} workers, found {} "
                           "for {}",
                           kLargestFactor, kMostWorkers, factor, workers));
    }
  }
  for (const int64_t workers : possible_sizes(parallel, e)) {
    if (e.learning_rate_table.contains(workers)) continue;
    s.reject("learning_rate_table",
             fmt::format("has no factor for {} workers, which the job may have; add one, or list "
                         "the sizes that it may have in elastic.sizes",
                         workers));
  }
}

/// Whether the batch follows the size, and the learning rate the batch.
void read_batch(const Settings& s, const ParallelRecipe& parallel, ElasticRecipe& e) {
  e.scales_batch = s.choice("batch", "keep", {"keep", "scale"}) == "scale";
  e.reference_workers = bounded(s, "reference_workers", parallel.workers, 1, kMostWorkers);
  if (e.reference_workers % parallel.context != 0) {
    s.reject("reference_workers", fmt::format("must be a multiple of parallel.context ({}), found "
                                              "{}",
                                              parallel.context, e.reference_workers));
  }
  e.learning_rate = s.choice("learning_rate", "none", {"none", "linear", "sqrt", "table"});
  e.learning_rate_table = s.table("learning_rate_table");
  check_learning_rate(s, e, parallel);
}

}  // namespace

ElasticRecipe read_elastic(const Settings& s, const ParallelRecipe& parallel) {
  ElasticRecipe e;
  e.increment = bounded(s, "increment", std::max(e.increment, parallel.context), 1, kMostWorkers);
  if (e.increment % parallel.context != 0) {
    s.reject("increment", fmt::format("must be a multiple of parallel.context ({}), found {}",
                                      parallel.context, e.increment));
  }
  e.sizes = s.integers("sizes", {});
  for (const int64_t size : e.sizes) {
    if (size % parallel.context != 0) {
      s.reject("sizes", fmt::format("must be multiples of parallel.context ({}), found {}",
                                    parallel.context, size));
    }
    if (size < parallel.min_workers || size > parallel.max_workers) {
      s.reject("sizes", fmt::format("{} is not between parallel.min_workers ({}) and "
                                    "parallel.max_workers ({})",
                                    size, parallel.min_workers, parallel.max_workers));
    }
  }
  const bool listed = std::find(e.sizes.begin(), e.sizes.end(), parallel.workers) != e.sizes.end();
  if (!e.sizes.empty() && !listed) {
    s.reject("sizes",
             fmt::format("[{}] does not have parallel.workers ({}), the size to begin with",
                         fmt::join(e.sizes, ", "), parallel.workers));
  }
  if (e.sizes.empty() && (parallel.workers - parallel.min_workers) % e.increment != 0) {
    s.reject("increment",
             fmt::format("{} does not lead from parallel.min_workers ({}) to parallel.workers ({})",
                         e.increment, parallel.min_workers, parallel.workers));
  }
  e.stable_seconds = bounded_number(s, "stable_seconds", e.stable_seconds, 0, kMostSeconds);
  e.snooze_seconds = bounded_number(s, "snooze_seconds", e.snooze_seconds, 0, kMostSeconds);
  e.spare_wait_seconds =
      bounded_number(s, "spare_wait_seconds", e.spare_wait_seconds, 0, kMostSeconds);
  e.backoff_seconds = bounded_number(s, "backoff_seconds", e.backoff_seconds, 0, kMostSeconds);
  e.backoff_limit_seconds =
      bounded_number(s, "backoff_limit_seconds", e.backoff_limit_seconds, 0, kMostSeconds);
  if (e.backoff_limit_seconds < e.backoff_seconds) {
    s.reject("backoff_limit_seconds",
             fmt::format("{} is less than the first wait, elastic.backoff_seconds ({})",
                         e.backoff_limit_seconds, e.backoff_seconds));
  }
  e.failures_without_progress =
      bounded(s, "failures_without_progress", e.failures_without_progress, 0, 1'000'000);
  e.grace_seconds = above_zero(s, "grace_seconds", e.grace_seconds, kMostSeconds);
  read_batch(s, parallel, e);
  return e;
}

void check_shares(const Settings& settings, const Recipe& r) {
  const ParallelRecipe& p = r.parallel;
  // Each worker of a context has a part of a micro-batch.
  const int64_t m = r.train.micro_batches(), units = r.units();
  const std::string cut = fmt::format(
      "(train.global_batch {} / train.micro_batch {}{})", r.train.global_batch, r.train.micro_batch,
      p.context > 1 ? fmt::format(", {} workers each", p.context) : "");
  if (!r.elastic.scales_batch) {
    const Settings parallel = settings.section("parallel");
    if (p.workers > units) {
      parallel.reject("workers",
                      fmt::format("{} workers cannot share {} micro-batches {}; use at most {} "
                                  "workers or a smaller micro_batch",
                                  p.workers, m, cut, units));
    }
    if (p.max_workers > units) {
      parallel.reject("max_workers",
                      fmt::format("{} workers cannot share {} micro-batches; use at most {}",
                                  p.max_workers, m, units));
    }
    return;
  }
  const Settings elastic = settings.section("elastic");
  const int64_t reference = r.elastic.reference_workers;
  if (reference > units) {
    elastic.reject("reference_workers",
                   fmt::format("{} workers cannot share {} micro-batches {}; use at most {}, or a "
                               "smaller micro_batch",
                               reference, m, cut, units));
  }
  for (const int64_t workers : possible_sizes(p, r.elastic)) {
    if (m * workers % reference != 0) {
      const int64_t step = reference * r.train.micro_batch;
      elastic.reject(
          "batch",
          fmt::format("{} workers would have {:.4g} micro-batches a step, as {} have {} {}; "
                      "use a train.global_batch that fits all sizes, such as {}, or list "
                      "those that fit in elastic.sizes",
                      workers, static_cast<double>(m * workers) / static_cast<double>(reference),
                      reference, m, cut, (r.train.global_batch / step + 1) * step));
    }
    const int64_t count = m * workers / reference;
    if (count * p.context > kMostMicroBatches || count * r.train.micro_batch > kLargestBatch) {
      elastic.reject("batch", fmt::format("{} workers would have {} micro-batches of {} a step; at "
                                          "most {} micro-batches and {} samples are possible",
                                          workers, count, r.train.micro_batch, kMostMicroBatches,
                                          kLargestBatch));
    }
  }
}

}  // namespace craton::recipe
