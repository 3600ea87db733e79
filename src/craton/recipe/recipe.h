#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "craton/recipe/settings.h"

namespace craton::recipe {

/// What this build can do; the recipe is checked against it.
struct Build {
  bool has_cuda = false;
};

struct VolumeRecipe {
  std::string uri;       ///< "s3://...", "file://..." or an absolute path
  std::string variable;  ///< array of the store; empty: its default
  double weight = 0;     ///< share of the samples; 0 for all volumes: by their number of windows
  std::vector<int64_t> window;  ///< samples per axis, of this volume; empty: data.window
};

/// Token files for language models, instead of volumes.
struct TokensRecipe {
  std::string uri;    ///< of a file, of several by a pattern, or of a Megatron pair by its prefix
  std::string type;   ///< "uint16", ... of files without a header; empty: they have one
  double weight = 0;  ///< share of the samples; 0 for all of them: by their number of windows
};

struct AugmentRecipe {
  bool flip = true;
  bool polarity = false;
  double gain = 0.2;
  double noise = 0;
};

/// What the workers of a node keep of what they have read, on a disk of the node.
struct CacheRecipe {
  std::string path;  ///< folder; empty: the user's, and only for volumes that are not files
  uint64_t bytes = uint64_t{16} << 30;  ///< at most, and at most half of what is free; 0: no cache
  std::string format = "stored";        ///< "stored", "decoded", "lz4"
  /// "scratch": what a node has, it has alone; "persistent": a second copy lies on another node.
  std::string mode = "scratch";
  std::vector<std::string> peers;  ///< "http://host:port" of the nodes' `craton cache serve`
};

struct DataRecipe {
  std::vector<VolumeRecipe> volumes;  ///< or `tokens`, never both
  std::vector<TokensRecipe> tokens;
  int64_t sequence = 1024;      ///< tokens that a sample predicts
  int64_t vocabulary = 0;       ///< tokens must lie below it; 0: any
  std::vector<int64_t> window;  ///< samples per axis, 2 or 3 axes
  std::vector<int64_t> stride;  ///< empty: half a window
  int64_t tile_rows = 0;        ///< rows of a window that are read at once; 0: all
  std::string sections = "both";
  double validation_fraction = 0.1;
  double dead_fraction_limit = 0.5;
  double clip_deviations = 5;
  uint64_t working_set_bytes = 512u << 20;
  uint64_t prefetch_bytes = 1024u << 20;  ///< decoded chunks and finished windows of a worker
  int64_t loader_threads = 1;
  AugmentRecipe augment;
  CacheRecipe cache;
  /// The window of volume `index`.
  const std::vector<int64_t>& window_of(size_t index) const {
    return volumes[index].window.empty() ? window : volumes[index].window;
  }
};

struct OptimizerRecipe {
  std::string kind = "adamw";
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.05;
};

struct ScheduleRecipe {
  std::string kind = "cosine";  ///< "cosine" or "constant" (after warm-up)
  int64_t warmup_steps = 0;
  double min_lr_ratio = 0;  ///< last learning rate over the highest
};

struct TrainRecipe {
  int64_t steps = 100;
  int64_t global_batch = 16;
  int64_t micro_batch = 4;
  OptimizerRecipe optimizer;
  ScheduleRecipe schedule;
  double clip_norm = 1;                   ///< 0: no clipping
  std::string param_dtype = "fp32";       ///< in which the model gets its parameters: or "bf16"
  bool activation_checkpointing = false;  ///< blocks are computed again in backward
  int64_t validate_every = 50;            ///< steps; 0: never
  int64_t validation_samples = 32;
  int64_t log_every = 1;
  /// M: micro-batches of a step (elastic.batch scale: with `reference_workers`).
  int64_t micro_batches() const { return global_batch / micro_batch; }
};

struct ParallelRecipe {
  std::string strategy = "ddp";         ///< one of strategy_names()
  int64_t context = 1;                  ///< workers that share one window
  std::string context_method = "ring";  ///< of attention: "ring", "ulysses", "hybrid"
  int64_t workers = 1;
  int64_t min_workers = 1;
  int64_t max_workers = 8;  ///< at most M, unless the batch follows the size
  int64_t shards = 128;     ///< S
  uint64_t bucket_bytes = 4u << 20;
  bool reshard_after_forward = true;  ///< fsdp
  int64_t shard_group = 0;  ///< so many workers hold one whole copy of the state; 0: all of them
  std::string transport = "auto";  ///< "auto", "shared_memory", "tcp"
  int64_t backups = 0;
  int64_t spares = 0;  ///< warm workers beside the job
  double timeout_seconds = 120;
};

/// When a job changes its size; min_workers and max_workers are in ParallelRecipe.
struct ElasticRecipe {
  int64_t increment = 1;
  std::vector<int64_t> sizes;  ///< empty: min_workers, min_workers + increment, ...
  double stable_seconds = 0;
  double snooze_seconds = 0;
  double spare_wait_seconds = 0;
  double backoff_seconds = 1, backoff_limit_seconds = 60;
  int64_t failures_without_progress = 10;  ///< 0: no limit
  double grace_seconds = 30;               ///< what SIGTERM leaves a worker
  bool scales_batch = false;      ///< a step's micro-batches grow and shrink with the workers
  int64_t reference_workers = 1;  ///< with so many a step has train.global_batch samples
  std::string learning_rate =
      "none";  ///< that follows the batch: "none", "linear", "sqrt", "table"
  std::map<int64_t, double> learning_rate_table;  ///< factor by workers
};

/// What survives a failure (off: is made anew), and how long is waited for whom.
struct RecoveryRecipe {
  bool in_process = true;    ///< survivors keep their processes
  bool peer_state = true;    ///< state comes from survivors; off: from the durable checkpoint
  bool communicator = true;  ///< survivors keep their connections
  bool data_cache = true;    ///< survivors keep what they have read
  double hang_seconds = 60;
  double report_seconds = 10;
  double lease_seconds = 10;
  double drain_seconds = 60;
  double orphan_seconds = 30;
  double start_seconds = 600;
};

struct CheckpointRecipe {
  int64_t every = 100;  ///< steps; 0: only at the end
  int64_t keep = 2;     ///< newest checkpoints that stay
  std::string path;     ///< folder; default RUN/checkpoints
  std::string resume =
      "auto";  ///< "auto": the newest of `path` if any; "none"; or a checkpoint folder
};

/// The whole job, typed and checked. A program reads this and nothing else; only the model's own
/// keys stay a Settings, for its factory. Loading touches no file but the recipe. Keys, defaults
/// and meaning: docs/recipes.md.
struct Recipe {
  std::string name;
  uint64_t seed = 0;
  std::string device = "cpu";        ///< "cpu", "cuda"
  std::string kernels = "portable";  ///< "portable", "native"
  int64_t threads = 1;               ///< per worker; part of the results
  DataRecipe data;
  Settings model;  ///< `model.window` is filled in for kind sfm; call finish() after the factory
                   ///< has read it
  TrainRecipe train;
  ParallelRecipe parallel;
  /// What workers compute at once, of a step: a micro-batch, or a part of one for each worker of a
  /// context. Unit u is part u mod context of micro-batch u / context.
  int64_t units() const { return train.micro_batches() * parallel.context; }
  /// Of so many samples.
  int64_t units_of(int64_t samples) const { return samples / train.micro_batch * parallel.context; }
  ElasticRecipe elastic;
  RecoveryRecipe recovery;
  CheckpointRecipe checkpoint;
  std::string run_folder;  ///< default runs/NAME

  Settings settings;  ///< the tree that all of this came from; settings.dump() is the recipe with
                      ///< its defaults

  /// Reads a file, applies "key=value" overrides, checks. Error: one line with place, key, what was
  /// found and what to do.
  static Recipe load(const std::string& path, const std::vector<std::string>& overrides = {},
                     const Build& build = {});
  /// The same of parsed settings; `default_name` is the job's name when the recipe has none.
  static Recipe read(const Settings& settings, const std::string& default_name = "job",
                     const Build& build = {});

  /// Micro-batches of a step with so many workers.
  int64_t micro_batches_with(int64_t workers) const;
  /// What the schedule's learning rate is multiplied with in a step of so many micro-batches.
  double learning_rate_factor(int64_t micro_batches) const;

  /// SHA-256 of everything that the results depend on: not workers, strategy, transport,
  /// checkpoints, logging, nor in which folder the volumes lie. Two jobs with the same digest end
  /// with the same bits (if the batch follows the size: when each step has the same size in both).
  std::string digest() const;
};

/// Names that `parallel.strategy` takes in this build.
const std::vector<std::string>& strategy_names();

}  // namespace craton::recipe
