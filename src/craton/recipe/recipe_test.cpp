#include "craton/recipe/recipe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "craton/base/error.h"

namespace craton::recipe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kRecipe = R"(name: demo
seed: 7
data:
  volumes:
    - uri: a.mdio
  window: [32, 64, 64]
model:
  kind: sfm
  patch: [8, 8, 8]
train:
  steps: 50
  global_batch: 16
  micro_batch: 2
)";

Settings with(const std::vector<std::string>& overrides) {
  Settings settings = Settings::parse(kRecipe, "x.yaml");
  for (const auto& assignment : overrides) settings.override_with(assignment);
  return settings;
}

Recipe read(const std::vector<std::string>& overrides = {}) {
  return Recipe::read(with(overrides));
}

std::string error_of(const std::vector<std::string>& overrides) {
  try {
    read(overrides);
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(Recipe, FillsInDefaults) {
  const Recipe r = read();
  EXPECT_EQ(r.name, "demo");
  EXPECT_EQ(r.train.micro_batches(), 8);
  EXPECT_EQ(r.parallel.workers, 1);
  EXPECT_EQ(r.parallel.max_workers, 8);
  EXPECT_EQ(r.parallel.shards, 128);
  EXPECT_EQ(r.run_folder, "runs/demo");
  EXPECT_EQ(r.checkpoint.path, "runs/demo/checkpoints");
  EXPECT_EQ(r.data.volumes[0].uri, (std::filesystem::current_path() / "a.mdio").string());
  EXPECT_THAT(r.model.integers("window", {}), ElementsAre(32, 64, 64));
}

TEST(Recipe, KeepsUrisAndReplacesVariables) {
  ::unsetenv("CRATON_RECIPE_TEST");
  const Recipe r =
      read({"data.volumes=[{uri: s3://bucket/a.mdio}, {uri: "
            "'${CRATON_RECIPE_TEST:-../shared/data}/b'}]"});
  EXPECT_EQ(r.data.volumes[0].uri, "s3://bucket/a.mdio");
  EXPECT_EQ(r.data.volumes[1].uri,
            (std::filesystem::current_path() / "../shared/data/b").lexically_normal().string());
}

struct BadRecipe {
  std::vector<std::string> overrides;
  std::string message;
};

TEST(Recipe, ImpossibleCombinationsAreErrors) {
  const std::vector<BadRecipe> cases = {
      {{"train.global_batch=15"},
       "command line: train.global_batch: must be a multiple of train.micro_batch (2), found 15; "
       "16 would fit"},
      {{"parallel.workers=9"}, "parallel.workers: 9 workers cannot share 8 micro-batches"},
      {{"parallel.workers=0"}, "parallel.workers: must be between 1 and"},
      {{"parallel.max_workers=9"}, "9 workers cannot share 8 micro-batches; use at most 8"},
      {{"parallel.workers=2", "parallel.min_workers=3"},
       "must lie between parallel.min_workers (3)"},
      {{"parallel.min_workers=5", "parallel.max_workers=4"},
       "5 is more than parallel.max_workers (4)"},
      {{"parallel.shards=2"}, "must be at least parallel.max_workers (8)"},
      {{"parallel.bucket_bytes=1"}, "must be between 64KiB and 1GiB"},
      {{"parallel.reshard_after_forward=false"}, "goes with parallel.strategy fsdp"},
      {{"parallel.shard_group=2"}, "in ddp every worker holds the whole state"},
      {{"parallel.strategy=zero9"}, "expected one of ddp, zero1, zero2, zero3, fsdp"},
      {{"parallel.transport=rdma"}, "expected one of auto, shared_memory, tcp"},
      {{"parallel.backups=-1"}, "parallel.backups: must be between 0 and 3"},
      {{"parallel.timeout_seconds=0"}, "must be above 0"},
      {{"parallel.context=2"}, "so train.micro_batch must be 1, found 2"},
      {{"parallel.context=2", "train.micro_batch=1", "parallel.workers=3"},
       "parallel.workers: must be a multiple of parallel.context (2), found 3"},
      {{"parallel.context=2", "train.micro_batch=1", "parallel.min_workers=3"},
       "parallel.min_workers: must be a multiple of parallel.context (2), found 3"},
      {{"parallel.context=2", "train.micro_batch=1", "elastic.increment=3"},
       "elastic.increment: must be a multiple of parallel.context (2), found 3"},
      {{"parallel.context=2", "train.micro_batch=1", "elastic.sizes=[2, 3]"},
       "elastic.sizes: must be multiples of parallel.context (2), found 3"},
      {{"parallel.context=4", "train.micro_batch=1", "train.global_batch=2", "parallel.workers=12"},
       "12 workers cannot share 2 micro-batches (train.global_batch 2 / train.micro_batch 1, 4 "
       "workers each); use at most 8"},
      {{"parallel.context_method=star"}, "expected one of ring, ulysses, hybrid"},
      {{"parallel.context=65"}, "parallel.context: must be between 1 and 64"},
      {{"data.tile_rows=8"}, "data.tile_rows: one window is read at a time, so train.micro_batch"},
      {{"data.tile_rows=-1"}, "data.tile_rows: must be between 0 and"},
      {{"elastic.sizes=[2, 4, 9]"}, "9 is not between parallel.min_workers (1)"},
      {{"elastic.sizes=[2, 4]"}, "does not have parallel.workers (1), the size to begin with"},
      {{"elastic.increment=2", "parallel.workers=2"},
       "2 does not lead from parallel.min_workers (1)"},
      {{"elastic.batch=shrink"}, "elastic.batch: expected one of keep, scale; found 'shrink'"},
      {{"elastic.batch=scael"}, "did you mean 'scale'?"},
      {{"elastic.learning_rate=linear"},
       "elastic.learning_rate: linear has no effect while elastic.batch is keep"},
      {{"elastic.batch=scale", "elastic.learning_rate_table={1: 1}"},
       "command line: elastic.learning_rate_table: is read with elastic.learning_rate table only"},
      {{"elastic.batch=scale", "elastic.learning_rate=table"},
       "elastic.learning_rate: table needs elastic.learning_rate_table"},
      {{"elastic.batch=scale", "elastic.learning_rate=table", "parallel.max_workers=3",
        "elastic.learning_rate_table={1: 1, 2: 2}"},
       "elastic.learning_rate_table: has no factor for 3 workers, which the job may have"},
      {{"elastic.batch=scale", "elastic.learning_rate=table", "elastic.learning_rate_table={1: 0}"},
       "elastic.learning_rate_table: expected factors above 0"},
      {{"elastic.learning_rate_table={1: 1, one: 2}"},
       "elastic.learning_rate_table: expected a whole number, found 'one'"},
      {{"elastic.learning_rate_table=[[1, 2], [3]]"}, "whole numbers with a number each"},
      {{"elastic.learning_rate_table=[[1, 2], [1, 3]]"}, "1 is given twice"},
      {{"elastic.learning_rate_tabel={1: 1}"}, "did you mean 'elastic.learning_rate_table'?"},
      {{"elastic.batch=scale", "parallel.workers=3"},
       "elastic.batch: 1 workers would have 2.667 micro-batches a step, as 3 have 8 "
       "(train.global_batch 16 / train.micro_batch 2); use a train.global_batch that fits all "
       "sizes, such as 18"},
      {{"elastic.batch=scale", "elastic.reference_workers=9"},
       "elastic.reference_workers: 9 workers cannot share 8 micro-batches"},
      {{"elastic.batch=scale", "parallel.max_workers=4096", "train.global_batch=4096",
        "train.micro_batch=1"},
       "elastic.batch: 17 workers would have 69632 micro-batches of 1 a step"},
      {{"elastic.backoff_seconds=9", "elastic.backoff_limit_seconds=3"},
       "3 is less than the first wait, elastic.backoff_seconds (9)"},
      {{"recovery.hang_seconds=200"}, "200 is not below parallel.timeout_seconds (120)"},
      {{"recovery.report_seconds=9", "parallel.timeout_seconds=4"},
       "9 is not below parallel.timeout_seconds (4)"},
      {{"recovery.lease_seconds=60"}, "60 is longer than recovery.orphan_seconds (30)"},
      {{"recovery.in_process=off", "recovery.peer_state=on"},
       "recovery.peer_state: cannot be on while recovery.in_process is off"},
      {{"recovery.communicator=off"},
       "recovery.communicator: cannot be off while recovery.peer_state is on"},
      {{"recovery.in_process=maybe"}, "expected one of on, off"},
      {{"model.patch=[8, 8]"},
       "must have as many extents as data.window [32, 64, 64], found [8, 8]"},
      {{"model.patch=[8, 8, 7]"},
       "must divide data.window [32, 64, 64] on each axis, found [8, 8, 7]"},
      {{"model.patch=[8, 8, 0]"}, "must divide data.window"},
      {{"model.window=[32, 64, 32]"}, "differs from data.window"},
      {{"data.window=[64]"}, "must have 2 or 3 extents"},
      {{"data.window=[0, 64]"}, "extents must be between 1 and 65536"},
      {{"data.window=[]"}, "data.window: is needed"},
      {{"data.stride=[1, 2]"}, "data.stride: must have as many extents"},
      {{"data.stride=[1, 2, 65]"}, "must be between 1 and the window"},
      {{"data.volumes=[]"}, "data.volumes: is empty"},
      {{"data.volumes=[{weight: 1}]"}, "data.volumes[0].uri: is needed"},
      {{"data.volumes=[{uri: a, weight: 1}, {uri: b}]"}, "1 of 2 volumes have a weight"},
      {{"data.volumes.0.window=[8, 8]"},
       "data.volumes[0].window: must have as many extents as data.window [32, 64, 64]"},
      {{"data.volumes.0.window=[0, 8, 8]"}, "data.volumes[0].window: extents must be between 1"},
      {{"data.volumes.0.window=[8, 8, 8]", "data.stride=[8, 8, 9]"},
       "data.volumes[0].window: [8, 8, 8] is smaller than data.stride [8, 8, 9]"},
      {{"data.volumes=[{uri: a}, {uri: b, window: [8, 8, 8]}]"},
       "train.micro_batch: must be 1 where the windows of volumes differ ([32, 64, 64] and [8, 8, "
       "8]), found 2"},
      {{"data.volumes.0.window=[16, 64, 68]", "model.patch=[8, 8, 8]"},
       "must divide data.volumes[0].window [16, 64, 68] on each axis"},
      {{"data.prefetch_bytes=10"}, "must be at least 1MiB"},
      {{"data.cache.bytes=1MiB"}, "data.cache.bytes: must be 0 (no cache) or at least 64.0 MiB"},
      {{"data.cache.format=zip"}, "data.cache.format"},
      {{"data.cache.path=s3://b/c"}, "data.cache.path: must be a folder of this machine"},
      {{"data.cache.size=1GiB"}, "data.cache.size"},
      {{"data.validation_fraction=1"}, "must be between 0 and 0.9"},
      {{"data.augment.gain=1"}, "data.augment.gain: must be between 0 and 0.99"},
      {{"train.schedule.warmup_steps=51"}, "51 is longer than the training of 50 steps"},
      {{"train.steps=0"}, "train.steps: must be between 1 and"},
      {{"train.optimizer.lr=0"}, "train.optimizer.lr: must be above 0"},
      {{"train.optimizer.betas=[0.9]"}, "must be two numbers"},
      {{"train.optimizer.betas=[0.9, 1]"}, "must be two numbers from 0 to below 1"},
      {{"train.optimizer.kind=sgd"}, "expected one of adamw"},
      {{"train.schedule.min_lr_ratio=2"}, "must be between 0 and 1"},
      {{"train.clip_norm=-1"}, "must be between 0 and"},
      {{"train.param_dtype=fp16"}, "expected one of fp32, bf16"},
      {{"data.validation_fraction=0", "train.validate_every=5"}, "nothing is kept for validation"},
      {{"train.validation_samples=0"}, "must be above 0 to validate"},
      {{"train.micro_batch=1", "train.global_batch=100000"},
       "cuts a step into 100000 micro-batches"},
      {{"device=cuda"}, "device: this build has no CUDA; use 'cpu'"},
      {{"device=gpu"}, "expected one of cpu, cuda"},
      {{"kernels=fast"}, "expected one of portable, native"},
      {{"threads=0"}, "threads: must be between 1"},
      {{"seed=-1"}, "seed: must be between 0"},
      {{"name=a/b"}, "names a folder, so it must be letters"},
      {{"name=.."}, "names a folder"},
      {{"run.folder=''"}, "run.folder: names no folder"},
      {{"checkpoint.keep=0"}, "checkpoint.keep: must be between 1"},
      {{"checkpoint.resume=''"}, "expected auto, none or the folder"},
      {{"train.stpes=3"}, "did you mean 'train.steps'?"},
      {{"trian.steps=3"}, "did you mean 'train'?"},
      {{"train.lr=3"}, "it belongs at 'train.optimizer.lr'"},
      {{"data.volumes=[{uri: a, wieght: 2}]"}, "did you mean 'data.volumes[0].weight'?"},
  };
  for (const BadRecipe& bad : cases) {
    const std::string message = error_of(bad.overrides);
    EXPECT_THAT(message, HasSubstr(bad.message));
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

TEST(Recipe, WaitsThatAreNotGivenFollowThoseThatAre) {
  const Recipe r =
      Recipe::read(Settings::parse("data: {volumes: [{uri: x}], window: [8, 8]}\n"
                                   "parallel: {timeout_seconds: 8}\nrecovery: {orphan_seconds: 3}",
                                   "x"));
  EXPECT_EQ(r.recovery.hang_seconds, 4);
  EXPECT_EQ(r.recovery.report_seconds, 4);
  EXPECT_EQ(r.recovery.lease_seconds, 3);
}

TEST(Recipe, TheBatchMayFollowTheSize) {
  const Recipe keep = read({"parallel.workers=4"});
  EXPECT_EQ(keep.micro_batches_with(3), 8);
  EXPECT_EQ(keep.learning_rate_factor(8), 1);
  const Recipe scale = read({"elastic.batch=scale", "parallel.workers=4"});
  EXPECT_EQ(scale.elastic.reference_workers, 4);
  EXPECT_EQ(scale.micro_batches_with(3), 6);
  EXPECT_EQ(scale.learning_rate_factor(6), 1);
  const auto factor = [](const std::string& rule, int64_t micro_batches) {
    return read({"elastic.batch=scale", "parallel.workers=2", "elastic.reference_workers=4",
                 "elastic.learning_rate=" + rule,
                 rule == "table" ? "elastic.learning_rate_table=[[1, 0.5], [2, 0.75], [3, 0.875], "
                                   "[4, 1], [5, 1], [6, 1], [7, 1], [8, 1.5]]"
                                 : "name=same"})
        .learning_rate_factor(micro_batches);
  };
  EXPECT_EQ(factor("linear", 6), 0.75);
  EXPECT_EQ(factor("sqrt", 2), 0.5);
  EXPECT_EQ(factor("sqrt", 16), std::sqrt(2.0));
  EXPECT_EQ(factor("table", 4), 0.75);
  EXPECT_EQ(factor("table", 16), 1.5);
}

TEST(Recipe, ABatchThatFollowsTheSizeLetsInAsManyWorkersAsAreWanted) {
  const Recipe r = read({"elastic.batch=scale", "train.global_batch=2", "parallel.max_workers=32"});
  EXPECT_EQ(r.train.micro_batches(), 1);
  EXPECT_EQ(r.micro_batches_with(32), 32);
  // Sizes that do not fit are no trouble while the job cannot have them.
  EXPECT_NO_THROW(read({"elastic.batch=scale", "parallel.workers=3", "elastic.sizes=[3, 6]"}));
}

TEST(Recipe, WithoutProcessesNothingOfThemIsKept) {
  const Recipe r = Recipe::read(Settings::parse(
      "data: {volumes: [{uri: x}], window: [8, 8]}\nrecovery: {in_process: off}", "x"));
  EXPECT_FALSE(r.recovery.peer_state);
  EXPECT_FALSE(Recipe::read(Settings::parse(r.settings.dump(), "y")).recovery.data_cache);
}

TEST(Recipe, ATypoIsReportedBeforeWhatFollowsFromIt) {
  const Settings s = Settings::parse("data:\n  volmes: [{uri: a}]\n  window: [4, 4]\n", "x.yaml");
  try {
    Recipe::read(s);
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "x.yaml:2: data.volmes: unknown key; did you mean 'data.volumes'?");
  }
}

TEST(Recipe, LeavesTheModelsKeysToItsFactory) {
  EXPECT_NO_THROW(read({"model.anything=3"}));
  const Recipe r = read({"model.kind=mine", "model.patch=[1]"});
  EXPECT_FALSE(r.model.has("window"));
}

TEST(Recipe, CudaIsTakenByABuildThatHasIt) {
  Build build;
  build.has_cuda = true;
  EXPECT_EQ(Recipe::read(with({"device=cuda"}), "job", build).device, "cuda");
}

TEST(Recipe, NothingForValidationTurnsItOff) {
  EXPECT_EQ(read({"data.validation_fraction=0"}).train.validate_every, 0);
}

TEST(Recipe, DumpReadsBackAsTheSameJob) {
  const Recipe r = read({"parallel.workers=3", "data.volumes.0.weight=2", "elastic.batch=scale",
                         "train.global_batch=24", "elastic.learning_rate=table",
                         "elastic.learning_rate_table={1: 0.5, 2: 0.75, 3: 1, 4: 1, 5: 1, 6: 1, "
                         "7: 1, 8: 1.25}"});
  const Recipe again = Recipe::read(Settings::parse(r.settings.dump(), "dump.yaml"));
  EXPECT_EQ(again.digest(), r.digest());
  EXPECT_EQ(again.parallel.workers, 3);
  EXPECT_EQ(again.elastic.learning_rate_table, r.elastic.learning_rate_table);
  EXPECT_EQ(again.settings.dump(), r.settings.dump());
}

TEST(Recipe, DefaultsSaidOutLoudAreTheSameJob) {
  const Recipe silent =
      Recipe::read(Settings::parse("data: {volumes: [{uri: x}], window: [8, 8]}", "x"), "silent");
  const Recipe loud = Recipe::read(Settings::parse(silent.settings.dump(), "dump.yaml"));
  EXPECT_EQ(loud.digest(), silent.digest());
  EXPECT_EQ(loud.name, "silent");
}

TEST(Recipe, DigestKnowsWhatTheBitsDependOn) {
  const std::string digest = read().digest();
  for (const char* same :
       {"parallel.workers=3", "parallel.strategy=zero2", "parallel.transport=tcp",
        "checkpoint.every=3", "run.folder=/tmp/x", "name=other", "train.log_every=5",
        "train.validate_every=3", "train.validation_samples=3", "data.prefetch_bytes=64MiB",
        "parallel.shards=64", "data.volumes.0.uri=/else/a.mdio", "parallel.bucket_bytes=1MiB",
        "data.loader_threads=2", "train.param_dtype=fp32", "elastic.reference_workers=2"}) {
    EXPECT_EQ(read({same}).digest(), digest) << same;
  }
  for (const char* other :
       {"seed=8", "threads=2", "kernels=native", "train.steps=51", "train.micro_batch=4",
        "train.optimizer.lr=0.1", "model.dim=64", "data.volumes.0.uri=b.mdio",
        "data.augment.noise=0.1", "train.clip_norm=2", "data.window=[32, 64, 32]",
        "data.volumes.0.window=[32, 64, 32]", "data.working_set_bytes=64MiB",
        "train.schedule.warmup_steps=2", "train.param_dtype=bf16"}) {
    EXPECT_NE(read({other}).digest(), digest) << other;
  }
}

TEST(Recipe, DigestKnowsTheRuleByWhichTheBatchFollows) {
  const std::vector<std::string> scale = {"elastic.batch=scale", "elastic.reference_workers=2"};
  const std::string digest = read(scale).digest();
  EXPECT_NE(digest, read().digest());
  const auto with_also = [&](const std::string& more) {
    auto all = scale;
    all.push_back(more);
    return read(all).digest();
  };
  EXPECT_EQ(with_also("parallel.workers=3"), digest);
  EXPECT_NE(with_also("elastic.reference_workers=4"), digest);
  EXPECT_NE(with_also("elastic.learning_rate=sqrt"), digest);
}

TEST(Recipe, APersistentCacheNeedsPeers) {
  const Recipe r = read({"data.cache.mode=persistent", "data.cache.peers=[http://node1:7071]"});
  EXPECT_THAT(r.data.cache.peers, ElementsAre("http://node1:7071"));
  EXPECT_EQ(r.digest(), read().digest());
  EXPECT_THAT(error_of({"data.cache.mode=persistent"}), HasSubstr("data.cache.peers"));
  EXPECT_THAT(error_of({"data.cache.peers=[http://node1:7071]"}), HasSubstr("data.cache.mode"));
  EXPECT_THAT(error_of({"data.cache.mode=persistent", "data.cache.peers=[node1]"}),
              HasSubstr("http://host:port"));
}

TEST(Recipe, LoadNamesTheJobAfterItsFile) {
  const auto path =
      std::filesystem::temp_directory_path() / fmt::format("my demo.{}.yaml", ::getpid());
  std::ofstream(path) << "data: {volumes: [{uri: a}], window: [8, 8]}\n";
  const Recipe r = Recipe::load(path.string(), {"train.steps=3"});
  EXPECT_EQ(r.name, fmt::format("my-demo-{}", ::getpid()));
  EXPECT_EQ(r.train.steps, 3);
  std::filesystem::remove(path);
}

TEST(Recipe, TokensStandInTheVolumesPlace) {
  const auto parse = [](const std::string& data, const std::string& kind = "llm") {
    return Recipe::read(
        Settings::parse("data: {" + data + "}\nmodel: {kind: " + kind + "}\n", "x.yaml"));
  };
  const Recipe r = parse("tokens: [{uri: a/train_*.bin, type: uint16}], sequence: 256");
  ASSERT_EQ(r.data.tokens.size(), 1u);
  EXPECT_EQ(r.data.tokens[0].uri, std::filesystem::absolute("a/train_*.bin").string());
  EXPECT_EQ(r.data.sequence, 256);
  EXPECT_TRUE(r.data.volumes.empty());
  // The recipe with its defaults, as workers get it, is the same recipe.
  EXPECT_EQ(Recipe::read(Settings::parse(r.settings.dump(), "dump")).digest(), r.digest());
  EXPECT_NE(parse("tokens: [{uri: a/train_*.bin, type: uint16}], sequence: 128").digest(),
            r.digest());
  const auto error = [&](const std::string& data, const std::string& kind = "llm") {
    try {
      parse(data, kind);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(error("tokens: [{uri: a}]", "sfm"), HasSubstr("sfm learns from volumes"));
  EXPECT_THAT(error("tokens: [{uri: a}], window: [1, 1]"), HasSubstr("data.window"));
  EXPECT_THAT(error("tokens: [{uri: a}], volumes: [{uri: b}], window: [1, 1]"),
              HasSubstr("data.volumes"));
  EXPECT_THAT(error("tokens: [{type: uint16}]"), HasSubstr("uri"));
  EXPECT_THAT(error("tokens: [{uri: a, weight: 1}, {uri: b}]"), HasSubstr("1 of 2"));
  EXPECT_THAT(error("tokens: [{uri: a}], sequence: 0"), HasSubstr("data.sequence"));
  EXPECT_THAT(error("tokens: [{uri: a}], sequenze: 3"), HasSubstr("sequence"));
  EXPECT_THAT(error_of({"data.sequence=5"}), HasSubstr("there are none"));
}

// docs/recipes.md has a row "| `train.steps` | integer | `100` | ..." for each key of a recipe, and
// no other.
TEST(Recipe, EveryKeyIsDocumented) {
  std::filesystem::path root = std::filesystem::current_path();
  while (!std::filesystem::exists(root / "docs/recipes.md") && root.has_relative_path()) {
    root = root.parent_path();
  }
  std::ifstream file(root / "docs/recipes.md");
  ASSERT_TRUE(file) << "no docs/recipes.md in or above the current folder";
  std::set<std::string> documented;
  bool in_table = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("<!-- keys of every recipe -->")) in_table = true;
    if (line.starts_with("<!-- end -->")) in_table = false;
    if (!in_table || !line.starts_with("| `")) continue;
    std::vector<std::string> cells;
    std::stringstream stream(line.substr(1));
    for (std::string cell; std::getline(stream, cell, '|');) {
      const size_t first = cell.find_first_not_of(" `"), last = cell.find_last_not_of(" `");
      cells.push_back(first == std::string::npos ? "" : cell.substr(first, last - first + 1));
    }
    ASSERT_GE(cells.size(), 4u) << line;
    EXPECT_GT(cells[3].size(), 10u) << "no description: " << line;
    documented.insert(cells[0] + " | " + cells[1] + " | " + cells[2]);
  }
  const Recipe r = Recipe::read(
      Settings::parse("data: {volumes: [{uri: x}], window: [8, 8]}\ntrain: {global_batch: 32}",
                      "x"),
      "FILE");
  const Recipe of_tokens = Recipe::read(
      Settings::parse("data: {tokens: [{uri: x}]}\nmodel: {kind: llm}\ntrain: {global_batch: 32}",
                      "x"),
      "FILE");
  auto keys = r.settings.known();
  std::ranges::copy(of_tokens.settings.known(), std::back_inserter(keys));
  std::set<std::string> read_keys;
  for (const KnownKey& key : keys) {
    if (key.key.starts_with("model.")) continue;
    std::string type = key.type,
                fallback = key.fallback == "\"\"" || key.fallback == "[]" ? "" : key.fallback;
    if (type.starts_with("choice of ")) type = type.substr(10);
    for (size_t at; (at = type.find(", ")) != std::string::npos;) type.replace(at, 2, " or ");
    read_keys.insert(key.key + " | " + type + " | " + fallback);
  }
  EXPECT_EQ(documented, read_keys);
}

}  // namespace
}  // namespace craton::recipe
