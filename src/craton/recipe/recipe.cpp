#include "craton/recipe/recipe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <limits>

#include "craton/base/check.h"
#include "craton/base/sha256.h"
#include "craton/base/units.h"
#include "craton/recipe/bounds.h"
#include "craton/recipe/fit_windows.h"
#include "craton/recipe/read_elastic.h"

namespace craton::recipe {
namespace {

namespace fs = std::filesystem;

std::string absolute_uri(const std::string& uri) {
  if (uri.find("://") != std::string::npos) return uri;
  return fs::absolute(uri).lexically_normal().string();
}

std::string read_name(const Settings& s, const std::string& fallback) {
  const std::string name = s.text("name", fallback);
  const bool good = !name.empty() && name.size() <= 100 && name.front() != '.' &&
                    std::all_of(name.begin(), name.end(), [](unsigned char c) {
                      return std::isalnum(c) || c == '-' || c == '_' || c == '.';
                    });
  if (!good) {
    s.reject(
        "name",
        fmt::format("names a folder, so it must be letters, digits, '-', '_' and '.'; found '{}'",
                    name));
  }
  return name;
}

std::vector<VolumeRecipe> read_volumes(const Settings& s) {
  std::vector<VolumeRecipe> volumes;
  size_t weighted = 0;
  for (const Settings& item : s.sections("volumes")) {
    VolumeRecipe volume;
    volume.uri = item.text("uri", "");
    if (volume.uri.empty()) item.reject("uri", "is needed: where the volume is, e.g. data/f3.mdio");
    volume.uri = absolute_uri(volume.uri);
    volume.variable = item.text("variable", "");
    volume.weight = bounded_number(item, "weight", 0, 0, 1e6);
    volume.window = item.integers("window", {});
    if (volume.weight > 0) ++weighted;
    volumes.push_back(std::move(volume));
  }
  if (volumes.empty()) {
    s.reject("volumes",
             "is empty: give at least one, e.g. 'volumes: [{uri: data/f3.mdio}]'; "
             "`craton volume synth` makes one (language models take data.tokens)");
  }
  if (weighted != 0 && weighted != volumes.size()) {
    s.reject("volumes",
             fmt::format("{} of {} volumes have a weight; give all of them one above 0, or none",
                         weighted, volumes.size()));
  }
  return volumes;
}

std::vector<TokensRecipe> read_tokens(const Settings& s) {
  std::vector<TokensRecipe> out;
  size_t weighted = 0;
  for (const Settings& item : s.sections("tokens")) {
    TokensRecipe tokens;
    tokens.uri = item.text("uri", "");
    if (tokens.uri.empty())
      item.reject("uri", "is needed: where the tokens are, e.g. data/train.bin");
    tokens.uri = absolute_uri(tokens.uri);
    tokens.type = item.text("type", "");
    tokens.weight = bounded_number(item, "weight", 0, 0, 1e6);
    if (tokens.weight > 0) ++weighted;
    out.push_back(std::move(tokens));
  }
  if (weighted != 0 && weighted != out.size()) {
    s.reject("tokens", fmt::format("{} of {} entries have a weight; give all of them one above 0, "
                                   "or none",
                                   weighted, out.size()));
  }
  return out;
}

void check_extents(const Settings& s, const std::vector<int64_t>& window) {
  for (const int64_t extent : window) {
    if (extent < 1 || extent > kLargestExtent) {
      s.reject("window", fmt::format("extents must be between 1 and {}, found [{}]", kLargestExtent,
                                     fmt::join(window, ", ")));
    }
  }
}

/// The windows of single volumes: as many axes as data.window, none smaller than the stride.
void check_own_windows(const Settings& s, const DataRecipe& data) {
  const auto items = s.sections("volumes");
  for (size_t n = 0; n < items.size(); ++n) {
    const std::vector<int64_t>& own = data.volumes[n].window;
    if (own.empty()) continue;
    check_extents(items[n], own);
    if (own.size() != data.window.size()) {
      items[n].reject("window",
                      fmt::format("must have as many extents as data.window [{}], found [{}]",
                                  fmt::join(data.window, ", "), fmt::join(own, ", ")));
    }
    for (size_t a = 0; a < data.stride.size(); ++a) {
      if (data.stride[a] > own[a]) {
        items[n].reject("window", fmt::format("[{}] is smaller than data.stride [{}]",
                                              fmt::join(own, ", "), fmt::join(data.stride, ", ")));
      }
    }
  }
}

void read_window(const Settings& s, DataRecipe& data) {
  data.window = s.integers("window", {});
  if (data.window.empty())
    s.reject("window", "is needed: samples per axis, e.g. [256, 256] or [32, 64, 64]");
  if (data.window.size() != 2 && data.window.size() != 3) {
    s.reject("window",
             fmt::format("must have 2 or 3 extents, found [{}]", fmt::join(data.window, ", ")));
  }
  check_extents(s, data.window);
  data.stride = s.integers("stride", {});
  if (!data.stride.empty() && data.stride.size() != data.window.size()) {
    s.reject("stride", fmt::format("must have as many extents as the window [{}], found [{}]",
                                   fmt::join(data.window, ", "), fmt::join(data.stride, ", ")));
  }
  for (size_t a = 0; a < data.stride.size(); ++a) {
    if (data.stride[a] < 1 || data.stride[a] > data.window[a]) {
      s.reject("stride",
               fmt::format("must be between 1 and the window [{}] on each axis, found [{}]",
                           fmt::join(data.window, ", "), fmt::join(data.stride, ", ")));
    }
  }
  check_own_windows(s, data);
}

CacheRecipe read_cache(const Settings& s) {
  CacheRecipe cache;
  cache.path = s.text("path", cache.path);
  if (cache.path.find("://") != std::string::npos)
    s.reject("path", fmt::format("must be a folder of this machine, found '{}'", cache.path));
  if (!cache.path.empty()) cache.path = absolute_uri(cache.path);
  cache.bytes = s.bytes("bytes", cache.bytes);
  if (cache.bytes != 0 && cache.bytes < kSmallestCache)
    s.reject("bytes", fmt::format("must be 0 (no cache) or at least {}, found {} bytes",
                                  format_bytes(static_cast<double>(kSmallestCache)), cache.bytes));
  cache.format = s.choice("format", cache.format, {"stored", "decoded", "lz4"});
  cache.mode = s.choice("mode", cache.mode, {"scratch", "persistent"});
  cache.peers = s.texts("peers", {});
  for (const std::string& peer : cache.peers)
    if (!peer.starts_with("http://"))
      s.reject("peers", fmt::format("must be http://host:port, found '{}'", peer));
  if (cache.mode == "persistent" && cache.peers.empty())
    s.reject("peers", "is needed with mode persistent: where the nodes' `craton cache serve` are");
  if (cache.mode == "scratch" && !cache.peers.empty())
    s.reject("mode", "must be persistent where peers are named, found scratch");
  return cache;
}

/// What only volumes have.
void read_volume_keys(const Settings& s, DataRecipe& data) {
  data.volumes = read_volumes(s);
  read_window(s, data);
  data.sections = s.choice("sections", data.sections, {"both", "inline", "crossline"});
  data.dead_fraction_limit =
      bounded_number(s, "dead_fraction_limit", data.dead_fraction_limit, 0, 1);
  data.clip_deviations = bounded_number(s, "clip_deviations", data.clip_deviations, 0, 1e6);
  data.loader_threads = bounded(s, "loader_threads", data.loader_threads, 1, kMostThreads);
  const Settings augment = s.section("augment");
  data.augment.flip = augment.boolean("flip", data.augment.flip);
  data.augment.polarity = augment.boolean("polarity", data.augment.polarity);
  data.augment.gain = bounded_number(augment, "gain", data.augment.gain, 0, 0.99);
  data.augment.noise = bounded_number(augment, "noise", data.augment.noise, 0, 10);
}

DataRecipe read_data(const Settings& s) {
  DataRecipe data;
  data.tokens = read_tokens(s);
  if (!data.tokens.empty()) {
    data.sequence = bounded(s, "sequence", data.sequence, 1, kLongestSequence);
    data.vocabulary = bounded(s, "vocabulary", data.vocabulary, 0, kLargestVocabulary);
  }
  if (data.tokens.empty() || s.has("volumes")) read_volume_keys(s, data);
  data.validation_fraction =
      bounded_number(s, "validation_fraction", data.validation_fraction, 0, 0.9);
  data.tile_rows = bounded(s, "tile_rows", data.tile_rows, 0, kLargestExtent);
  data.working_set_bytes = s.bytes("working_set_bytes", data.working_set_bytes);
  data.prefetch_bytes = s.bytes("prefetch_bytes", data.prefetch_bytes);
  for (const auto& [key, value] : {std::pair("working_set_bytes", data.working_set_bytes),
                                   std::pair("prefetch_bytes", data.prefetch_bytes)}) {
    if (value < kSmallestBudget)
      s.reject(key, fmt::format("must be at least 1MiB, found {} bytes", value));
  }
  data.cache = read_cache(s.section("cache"));
  return data;
}

OptimizerRecipe read_optimizer(const Settings& s) {
  OptimizerRecipe o;
  o.kind = s.choice("kind", o.kind, {"adamw"});
  o.lr = above_zero(s, "lr", o.lr, 100);
  const std::vector<double> betas = s.numbers("betas", {o.beta1, o.beta2});
  if (betas.size() != 2 ||
      !std::all_of(betas.begin(), betas.end(), [](double b) { return b >= 0 && b < 1; })) {
    s.reject("betas", fmt::format("must be two numbers from 0 to below 1, found [{}]",
                                  fmt::join(betas, ", ")));
  }
  o.beta1 = betas[0];
  o.beta2 = betas[1];
  o.eps = above_zero(s, "eps", o.eps, 1);
  o.weight_decay = bounded_number(s, "weight_decay", o.weight_decay, 0, 100);
  return o;
}

TrainRecipe read_train(const Settings& s, const DataRecipe& data) {
  TrainRecipe t;
  t.steps = bounded(s, "steps", t.steps, 1, kMostSteps);
  t.global_batch = bounded(s, "global_batch", t.global_batch, 1, kLargestBatch);
  t.micro_batch =
      bounded(s, "micro_batch", std::min(t.micro_batch, t.global_batch), 1, kLargestBatch);
  if (t.global_batch % t.micro_batch != 0) {
    s.reject("global_batch",
             fmt::format("must be a multiple of train.micro_batch ({}), found {}; {} would fit",
                         t.micro_batch, t.global_batch,
                         (t.global_batch / t.micro_batch + 1) * t.micro_batch));
  }
  if (t.micro_batches() > kMostMicroBatches) {
    s.reject("micro_batch",
             fmt::format("cuts a step into {} micro-batches, more than {}; make it larger",
                         t.micro_batches(), kMostMicroBatches));
  }
  t.optimizer = read_optimizer(s.section("optimizer"));
  const Settings schedule = s.section("schedule");
  t.schedule.kind = schedule.choice("kind", t.schedule.kind, {"cosine", "constant"});
  t.schedule.warmup_steps = bounded(schedule, "warmup_steps", 0, 0, kMostSteps);
  if (t.schedule.warmup_steps > t.steps) {
    schedule.reject(
        "warmup_steps",
        fmt::format("{} is longer than the training of {} steps; lower it or raise train.steps",
                    t.schedule.warmup_steps, t.steps));
  }
  t.schedule.min_lr_ratio = bounded_number(schedule, "min_lr_ratio", 0, 0, 1);
  t.param_dtype = s.choice("param_dtype", t.param_dtype, {"fp32", "bf16"});
  t.clip_norm = bounded_number(s, "clip_norm", t.clip_norm, 0, 1e9);
  t.activation_checkpointing = s.boolean("activation_checkpointing", t.activation_checkpointing);
  t.validate_every = bounded(s, "validate_every", t.validate_every, 0, kMostSteps);
  t.validation_samples = bounded(s, "validation_samples", t.validation_samples, 0, kLargestBatch);
  if (data.validation_fraction == 0 && t.validate_every > 0) {
    if (s.has("validate_every")) {
      s.reject("validate_every",
               "nothing is kept for validation (data.validation_fraction is 0); set it to 0 or "
               "keep a part");
    }
    t.validate_every = 0;
  }
  if (t.validate_every > 0 && t.validation_samples == 0) {
    s.reject("validation_samples", "must be above 0 to validate; or set train.validate_every to 0");
  }
  t.log_every = bounded(s, "log_every", t.log_every, 1, kMostSteps);
  return t;
}

ParallelRecipe read_parallel(const Settings& s, const TrainRecipe& train) {
  ParallelRecipe p;
  p.strategy = s.choice("strategy", p.strategy, strategy_names());
  p.context = bounded(s, "context", p.context, 1, kMostContext);
  if (p.context > 1 && train.micro_batch != 1) {
    s.reject("context", fmt::format("workers share one window at a time, so train.micro_batch must "
                                    "be 1, found {}",
                                    train.micro_batch));
  }
  const int64_t units = train.micro_batches() * p.context;
  if (units > kMostMicroBatches) {
    s.reject("context",
             fmt::format("{} workers for each of {} micro-batches are {} parts of a step; at "
                         "most {} are possible",
                         p.context, train.micro_batches(), units, kMostMicroBatches));
  }
  p.context_method = s.choice("context_method", p.context_method, {"ring", "ulysses", "hybrid"});
  p.workers = bounded(s, "workers", std::max(p.workers, p.context), 1, kMostWorkers);
  p.max_workers =
      bounded(s, "max_workers", std::max(p.workers, std::min<int64_t>(units, p.max_workers)), 1,
              kMostWorkers);
  p.min_workers = bounded(s, "min_workers", std::max(p.min_workers, p.context), 1, kMostWorkers);
  for (const auto& [key, number] :
       {std::pair("workers", p.workers), std::pair("min_workers", p.min_workers)}) {
    if (number % p.context == 0) continue;
    s.reject(key, fmt::format("must be a multiple of parallel.context ({}), found {}", p.context,
                              number));
  }
  if (p.min_workers > p.max_workers) {
    s.reject("min_workers", fmt::format("{} is more than parallel.max_workers ({})", p.min_workers,
                                        p.max_workers));
  }
  if (p.workers < p.min_workers || p.workers > p.max_workers) {
    s.reject(
        "workers",
        fmt::format(
            "must lie between parallel.min_workers ({}) and parallel.max_workers ({}), found {}",
            p.min_workers, p.max_workers, p.workers));
  }
  p.shards =
      bounded(s, "shards", kShardsPerWorker * p.max_workers, 1, kShardsPerWorker * kMostWorkers);
  if (p.shards < p.max_workers) {
    s.reject("shards", fmt::format("must be at least parallel.max_workers ({}), found {}",
                                   p.max_workers, p.shards));
  }
  p.bucket_bytes = s.bytes("bucket_bytes", p.bucket_bytes);
  if (p.bucket_bytes < kSmallestBucket || p.bucket_bytes > kLargestBucket) {
    s.reject("bucket_bytes",
             fmt::format("must be between 64KiB and 1GiB, found {} bytes", p.bucket_bytes));
  }
  p.reshard_after_forward = s.boolean("reshard_after_forward", p.reshard_after_forward);
  if (!p.reshard_after_forward && p.strategy != "fsdp") {
    s.reject("reshard_after_forward", fmt::format("false goes with parallel.strategy fsdp, found "
                                                  "strategy {}",
                                                  p.strategy));
  }
  p.shard_group = bounded(s, "shard_group", p.shard_group, 0, kMostWorkers);
  if (p.shard_group > 0 && p.strategy == "ddp") {
    s.reject("shard_group",
             "in ddp every worker holds the whole state; leave it out, or choose "
             "another parallel.strategy");
  }
  p.transport = s.choice("transport", p.transport, {"auto", "shared_memory", "tcp"});
  p.backups = bounded(s, "backups", 0, 0, 3);
  p.spares = bounded(s, "spares", 0, 0, kMostWorkers);
  p.timeout_seconds = above_zero(s, "timeout_seconds", p.timeout_seconds, kMostSeconds);
  return p;
}

bool on_or_off(const Settings& s, std::string_view key, bool fallback = true) {
  return s.choice(key, fallback ? "on" : "off", {"on", "off"}) == "on";
}

/// Waits that depend on each other must end in the right order, or the wrong one is blamed.
void check_order_of_waits(const Settings& s, const RecoveryRecipe& r,
                          const ParallelRecipe& parallel) {
  if (r.hang_seconds >= parallel.timeout_seconds) {
    s.reject("hang_seconds",
             fmt::format("{} is not below parallel.timeout_seconds ({}): those who wait for a hung "
                         "worker would give up before it is found",
                         r.hang_seconds, parallel.timeout_seconds));
  }
  if (r.report_seconds >= parallel.timeout_seconds) {
    s.reject("report_seconds",
             fmt::format("{} is not below parallel.timeout_seconds ({}): a worker would give up "
                         "before the one that does not report is fenced",
                         r.report_seconds, parallel.timeout_seconds));
  }
  if (r.lease_seconds > r.orphan_seconds) {
    s.reject("lease_seconds",
             fmt::format("{} is longer than recovery.orphan_seconds ({}): workers would have ended "
                         "while a restarted operator still waits for them",
                         r.lease_seconds, r.orphan_seconds));
  }
}

RecoveryRecipe read_recovery(const Settings& s, const ParallelRecipe& parallel) {
  RecoveryRecipe r;
  r.in_process = on_or_off(s, "in_process");
  r.peer_state = on_or_off(s, "peer_state", r.in_process);
  r.communicator = on_or_off(s, "communicator", r.in_process);
  r.data_cache = on_or_off(s, "data_cache", r.in_process);
  for (const auto& [key, on] :
       {std::pair("peer_state", r.peer_state), std::pair("communicator", r.communicator),
        std::pair("data_cache", r.data_cache)}) {
    if (on && !r.in_process)
      s.reject(key, "cannot be on while recovery.in_process is off: it is lost with the processes");
  }
  if (!r.communicator && r.in_process && r.peer_state) {
    s.reject("communicator",
             "cannot be off while recovery.peer_state is on: the state of a worker lies in memory "
             "that its connections share; turn peer_state off too");
  }
  // What is not given follows a short parallel.timeout_seconds.
  const double below_timeout = parallel.timeout_seconds / 2;
  r.hang_seconds =
      above_zero(s, "hang_seconds", std::min(r.hang_seconds, below_timeout), kMostSeconds);
  r.report_seconds =
      above_zero(s, "report_seconds", std::min(r.report_seconds, below_timeout), kMostSeconds);
  r.orphan_seconds = above_zero(s, "orphan_seconds", r.orphan_seconds, kMostSeconds);
  r.lease_seconds =
      above_zero(s, "lease_seconds", std::min(r.lease_seconds, r.orphan_seconds), kMostSeconds);
  r.drain_seconds = above_zero(s, "drain_seconds", r.drain_seconds, kMostSeconds);
  r.start_seconds = above_zero(s, "start_seconds", r.start_seconds, kMostSeconds);
  check_order_of_waits(s, r, parallel);
  return r;
}

CheckpointRecipe read_checkpoint(const Settings& s, const std::string& run_folder) {
  CheckpointRecipe c;
  c.every = bounded(s, "every", c.every, 0, kMostSteps);
  c.keep = bounded(s, "keep", c.keep, 1, 1'000'000);
  c.path = s.text("path", (fs::path(run_folder) / "checkpoints").string());
  if (c.path.empty()) s.reject("path", "names no folder");
  c.resume = s.text("resume", c.resume);
  if (c.resume.empty()) s.reject("resume", "expected auto, none or the folder of a checkpoint");
  return c;
}

/// Volumes or tokens, and only the keys that belong to them.
void check_kind_of_data(const Settings& s, const DataRecipe& data) {
  if (data.tokens.empty()) {
    for (const char* key : {"sequence", "vocabulary"})
      if (s.has(key)) s.reject(key, "is for data.tokens, and there are none");
    return;
  }
  for (const char* key : {"volumes", "window", "stride", "sections", "dead_fraction_limit",
                          "clip_deviations", "augment", "loader_threads"})
    if (s.has(key)) s.reject(key, "is for volumes, and data.tokens names files of tokens");
}

Recipe read_all(const Settings& settings, const std::string& default_name) {
  Recipe r;
  r.settings = settings;
  r.name = read_name(settings, default_name);
  r.seed =
      static_cast<uint64_t>(bounded(settings, "seed", 0, 0, std::numeric_limits<int64_t>::max()));
  r.device = settings.choice("device", r.device, {"cpu", "cuda"});
  r.kernels = settings.choice("kernels", r.kernels, {"portable", "native"});
  r.threads = bounded(settings, "threads", r.threads, 1, kMostThreads);
  r.data = read_data(settings.section("data"));
  r.model = settings.delegate("model");
  r.train = read_train(settings.section("train"), r.data);
  r.parallel = read_parallel(settings.section("parallel"), r.train);
  r.elastic = read_elastic(settings.section("elastic"), r.parallel);
  check_shares(settings, r);
  r.recovery = read_recovery(settings.section("recovery"), r.parallel);
  const Settings run = settings.section("run");
  r.run_folder = run.text("folder", (fs::path("runs") / r.name).string());
  if (r.run_folder.empty()) run.reject("folder", "names no folder");
  r.checkpoint = read_checkpoint(settings.section("checkpoint"), r.run_folder);
  return r;
}

}  // namespace

const std::vector<std::string>& strategy_names() {
  static const std::vector<std::string> names = {"ddp", "zero1", "zero2", "zero3", "fsdp"};
  return names;
}

Recipe Recipe::load(const std::string& path, const std::vector<std::string>& overrides,
                    const Build& build) {
  Settings settings = Settings::load(path);
  for (const std::string& assignment : overrides) settings.override_with(assignment);
  std::string name;
  for (const char c : fs::path(path).stem().string()) {
    name += std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' ? c : '-';
  }
  return read(settings, name.empty() ? "job" : name, build);
}

Recipe Recipe::read(const Settings& settings, const std::string& default_name, const Build& build) {
  // A typo explains more than what follows from it, so unknown keys are looked for first.
  static const Settings example = [] {
    const Settings minimal = Settings::parse(
        "data: {volumes: [{uri: x}], tokens: [{uri: x}], window: [1, 1]}", "example");
    read_all(minimal, "job");
    return minimal;
  }();
  settings.finish(example);
  Recipe r = read_all(settings, default_name);
  if (r.device == "cuda" && !build.has_cuda) {
    settings.reject("device",
                    "this build has no CUDA; use 'cpu', or build against a libtorch that has it");
  }
  check_kind_of_data(settings.section("data"), r.data);
  fit_model_to_window(r.model, r.data);
  fit_micro_batch_to_windows(settings, r);
  check_tiles(settings, r);
  return r;
}

int64_t Recipe::micro_batches_with(int64_t workers) const {
  if (!elastic.scales_batch) return train.micro_batches();
  return train.micro_batches() * workers / elastic.reference_workers;
}

double Recipe::learning_rate_factor(int64_t micro_batches) const {
  if (!elastic.scales_batch || elastic.learning_rate == "none") return 1;
  if (elastic.learning_rate == "table") {
    const int64_t workers = micro_batches * elastic.reference_workers / train.micro_batches();
    const auto found = elastic.learning_rate_table.find(workers);
    CRATON_CHECK(found != elastic.learning_rate_table.end(), "no factor for {} workers", workers);
    return found->second;
  }
  const double ratio =
      static_cast<double>(micro_batches) / static_cast<double>(train.micro_batches());
  return elastic.learning_rate == "sqrt" ? std::sqrt(ratio) : ratio;
}

std::string Recipe::digest() const {
  std::string text = fmt::format("craton recipe 1\nseed {} device {} kernels {} threads {}\n", seed,
                                 device, kernels, threads);
  for (const VolumeRecipe& v : data.volumes) {
    text +=
        fmt::format("volume {} {} {}\n", fs::path(v.uri).filename().string(), v.variable, v.weight);
    if (!v.window.empty()) text += fmt::format("its window {}\n", fmt::join(v.window, "x"));
  }
  for (const TokensRecipe& t : data.tokens) {
    text += fmt::format("tokens {} {} {} sequence {}\n", fs::path(t.uri).filename().string(),
                        t.type, t.weight, data.sequence);
  }
  text +=
      fmt::format("window {} stride {} sections {} validation {} dead {} clip {} working set {}\n",
                  fmt::join(data.window, "x"), fmt::join(data.stride, "x"), data.sections,
                  data.validation_fraction, data.dead_fraction_limit, data.clip_deviations,
                  data.working_set_bytes);
  const AugmentRecipe& a = data.augment;
  text += fmt::format("augment {} {} {} {}\nmodel {}\n", a.flip, a.polarity, a.gain, a.noise,
                      model.canonical());
  if (data.tile_rows > 0) text += fmt::format("tiles {}\n", data.tile_rows);
  const OptimizerRecipe& o = train.optimizer;
  text += fmt::format("train {} {} {} {}\n", train.steps, train.global_batch, train.micro_batch,
                      train.clip_norm);
  text += fmt::format("{} {} {} {} {} {}\n", o.kind, o.lr, o.beta1, o.beta2, o.eps, o.weight_decay);
  text += fmt::format("{} {} {}\n", train.schedule.kind, train.schedule.warmup_steps,
                      train.schedule.min_lr_ratio);
  if (train.param_dtype != "fp32") text += fmt::format("parameters {}\n", train.param_dtype);
  if (elastic.scales_batch) {
    text += fmt::format("batch of {} workers, rate {}", elastic.reference_workers,
                        elastic.learning_rate);
    for (const auto& [workers, factor] : elastic.learning_rate_table)
      text += fmt::format(" {} {}", workers, factor);
    text += "\n";
  }
  if (parallel.context > 1)
    text += fmt::format("context {} {}\n", parallel.context, parallel.context_method);
  Sha256 hash;
  hash.update(std::as_bytes(std::span(text)));
  return hash.hex_digest();
}

}  // namespace craton::recipe
