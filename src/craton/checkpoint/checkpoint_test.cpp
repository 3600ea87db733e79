#include "craton/checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>

#include "craton/base/error.h"
#include "craton/runtime/file.h"

namespace craton::checkpoint {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

/// Some parameters with values that name where they are.
struct State {
  struct Tensor {
    std::string name;
    std::vector<int64_t> shape;
    std::vector<float> value, exp_avg, exp_avg_sq;
  };
  std::vector<Tensor> tensors;

  explicit State(float base = 0) {
    add("encoder.0.weight", {5, 3}, base);
    add("encoder.0.bias", {5}, base + 100);
    add("scale", {}, base + 200);
    add("nothing", {0, 4}, base + 300);
    add("head \"quoted\" ü", {2, 2, 2}, base + 400);
  }

  void add(std::string name, std::vector<int64_t> shape, float first) {
    const auto count = element_count(shape);
    Tensor t{std::move(name), std::move(shape), std::vector<float>(count),
             std::vector<float>(count), std::vector<float>(count)};
    std::iota(t.value.begin(), t.value.end(), first);
    std::iota(t.exp_avg.begin(), t.exp_avg.end(), first + 0.25f);
    std::iota(t.exp_avg_sq.begin(), t.exp_avg_sq.end(), first + 0.5f);
    tensors.push_back(std::move(t));
  }

  Manifest manifest(int64_t step) const {
    Manifest m;
    m.step = step;
    m.updates = step - 1;
    m.samples_seen = step * 16;
    m.generation = 3;
    m.recipe_digest = "abc";
    for (const Tensor& t : tensors) m.parameters.push_back({t.name, t.shape});
    return m;
  }

  fs::path save(const fs::path& root, int64_t step, int parts, int64_t keep = 2) const {
    const fs::path staging = staging_folder(root, step, 3);
    for (int part = 0; part < parts; ++part) {
      std::vector<ParameterState> mine;
      for (size_t i = static_cast<size_t>(part); i < tensors.size();
           i += static_cast<size_t>(parts)) {
        const Tensor& t = tensors[i];
        ParameterState state;
        state.name = t.name;
        state.shape = t.shape;
        state.value = std::as_bytes(std::span(t.value));
        state.exp_avg = t.exp_avg;
        state.exp_avg_sq = t.exp_avg_sq;
        mine.push_back(state);
      }
      write_part(staging, part, parts, mine);
    }
    return commit(root, staging, parts, manifest(step), "name: demo\n", keep);
  }
};

TEST(Checkpoint, AnyNumberOfPartsReadsTheSame) {
  const State state;
  for (const int parts : {1, 2, 4, 8}) {
    const runtime::TemporaryDirectory folder;
    const fs::path saved = state.save(folder.path(), 100, parts);
    EXPECT_EQ(saved.filename(), "step-00000100");
    for (const fs::path& path : {saved, folder.path()}) {
      const CheckpointReader reader(path);
      EXPECT_EQ(reader.manifest().step, 100);
      EXPECT_EQ(reader.manifest().updates, 99);
      EXPECT_EQ(reader.manifest().generation, 3u);
      EXPECT_EQ(reader.recipe_yaml(), "name: demo\n");
      ASSERT_EQ(reader.manifest().parameters.size(), state.tensors.size());
      for (size_t i = 0; i < state.tensors.size(); ++i) {
        const auto& t = state.tensors[i];
        EXPECT_EQ(reader.manifest().parameters[i].name, t.name);
        EXPECT_EQ(reader.find(t.name)->shape, t.shape);
        for (const auto& [kind, expected] :
             {std::pair(StateKind::kParameter, &t.value), std::pair(StateKind::kExpAvg, &t.exp_avg),
              std::pair(StateKind::kExpAvgSq, &t.exp_avg_sq)}) {
          std::vector<float> got(expected->size());
          reader.read(kind, t.name, 0, got);
          EXPECT_EQ(got, *expected);
        }
      }
      float two[2];
      reader.read(StateKind::kExpAvg, "encoder.0.weight", 7, two);
      EXPECT_EQ(two[1], state.tensors[0].exp_avg[8]);
      EXPECT_EQ(reader.find("other"), nullptr);
      EXPECT_THAT(error_of([&] { reader.read(StateKind::kParameter, "other", 0, two); }),
                  HasSubstr("has no 'other'"));
      EXPECT_THAT(
          error_of([&] { reader.read(StateKind::kParameter, "encoder.0.weight", 14, two); }),
          HasSubstr("bytes; asked for"));
      EXPECT_THAT(
          error_of([&] { reader.read(StateKind::kParameter, "encoder.0.weight", -1, two); }),
          HasSubstr("no element -1"));
    }
  }
}

TEST(Checkpoint, OtherProgramsFindWeightsByTheIndex) {
  const runtime::TemporaryDirectory folder;
  const State state;
  const fs::path saved = state.save(folder.path(), 5, 3);
  const auto index =
      nlohmann::json::parse(runtime::read_text(saved / "model.safetensors.index.json"));
  uint64_t total = 0;
  for (const auto& t : state.tensors) {
    const SafetensorsReader file(saved / index["weight_map"][t.name].get<std::string>());
    ASSERT_NE(file.find(t.name), nullptr);
    total += t.value.size() * 4;
  }
  EXPECT_EQ(index["weight_map"].size(), state.tensors.size());
  EXPECT_EQ(index["metadata"]["total_size"], total);
}

TEST(Checkpoint, FrozenParametersAndBuffersHaveNoMoments) {
  const runtime::TemporaryDirectory folder;
  const std::vector<int64_t> counts = {1, 2, 3};
  ParameterState buffer;
  buffer.name = "counts";
  buffer.shape = {3};
  buffer.dtype = "I64";
  buffer.trained = false;
  buffer.value = std::as_bytes(std::span(counts));
  const fs::path staging = staging_folder(folder.path(), 1, 0);
  write_part(staging, 0, 1, std::span(&buffer, 1));
  Manifest manifest;
  manifest.step = 1;
  manifest.parameters = {{"counts", {3}, "I64", false}};
  commit(folder.path(), staging, 1, manifest, "", 1);
  const CheckpointReader reader(folder.path());
  std::vector<int64_t> got(3);
  reader.read_bytes("counts", 0, std::as_writable_bytes(std::span(got)));
  EXPECT_EQ(got, counts);
  float one[1];
  EXPECT_THAT(error_of([&] { reader.read(StateKind::kParameter, "counts", 0, one); }),
              HasSubstr("is I64, expected F32"));
  EXPECT_THAT(error_of([&] { reader.read(StateKind::kExpAvg, "counts", 0, one); }),
              HasSubstr("has no 'exp_avg.counts'"));
}

TEST(Checkpoint, KeepsTheNewestAndClearsWhatWasLeft) {
  const runtime::TemporaryDirectory folder;
  const State state;
  fs::create_directories(staging_folder(folder.path(), 10, 1));
  fs::create_directories(staging_folder(folder.path(), 99, 7));
  for (const int64_t step : {10, 20, 30}) state.save(folder.path(), step, 2, 2);
  const auto left = list_checkpoints(folder.path());
  ASSERT_EQ(left.size(), 2u);
  EXPECT_EQ(left[0].filename(), "step-00000020");
  EXPECT_EQ(newest_checkpoint(folder.path())->filename(), "step-00000030");
  EXPECT_FALSE(fs::exists(staging_folder(folder.path(), 10, 1)));
  EXPECT_TRUE(fs::exists(staging_folder(folder.path(), 99, 7)));
  EXPECT_EQ(runtime::read_text(folder.path() / "latest"), "step-00000030\n");
}

TEST(Checkpoint, GoingBackMakesTheOlderStepTheNewest) {
  const runtime::TemporaryDirectory folder;
  State(0).save(folder.path(), 10, 1, 5);
  State(0).save(folder.path(), 20, 1, 5);
  State(7).save(folder.path(), 10, 1, 5);
  EXPECT_EQ(newest_checkpoint(folder.path())->filename(), "step-00000010");
  float first[1];
  CheckpointReader(folder.path()).read(StateKind::kParameter, "encoder.0.weight", 0, first);
  EXPECT_EQ(first[0], 7);
  for (const auto& entry : fs::directory_iterator(folder.path())) {
    EXPECT_EQ(entry.path().string().find(".old"), std::string::npos);
  }
}

// An operator may die between the commit and its record of it; the next one commits again.
TEST(Checkpoint, ACommitMayBeRepeated) {
  const runtime::TemporaryDirectory root;
  const State state;
  state.save(root.path(), 2, 1);
  const fs::path folder = state.save(root.path(), 4, 2);
  fs::remove(root.path() / "latest");  // it died before it came to this
  const auto again = [&](const Manifest& manifest) {
    return commit(root.path(), staging_folder(root.path(), 4, manifest.generation), 2, manifest,
                  "recipe", 1);
  };
  EXPECT_EQ(again(state.manifest(4)), folder);
  EXPECT_EQ(newest_checkpoint(root.path()), folder);
  EXPECT_EQ(list_checkpoints(root.path()).size(), 1u);
  CheckpointReader reader(folder);
  EXPECT_EQ(reader.manifest().samples_seen, 64);
  Manifest later = state.manifest(4);
  later.generation = 5;  // its parts are not there
  EXPECT_THAT(error_of([&] { again(later); }), HasSubstr("partial-5"));
  EXPECT_EQ(newest_checkpoint(root.path()), folder);
}

TEST(Checkpoint, IncompletePartsAreNotCommitted) {
  const runtime::TemporaryDirectory folder;
  const State state;
  const fs::path staging = staging_folder(folder.path(), 1, 0);
  const auto commit_error = [&](const Manifest& manifest, int parts) {
    return error_of([&] { commit(folder.path(), staging, parts, manifest, "", 1); });
  };
  ParameterState one;
  one.name = "a";
  one.shape = {2};
  const float values[2] = {1, 2};
  one.value = std::as_bytes(std::span(values));
  one.exp_avg = one.exp_avg_sq = values;
  write_part(staging, 0, 2, std::span(&one, 1));
  Manifest manifest;
  manifest.step = 1;
  manifest.parameters = {{"a", {2}}};
  EXPECT_THAT(commit_error(manifest, 2), HasSubstr("model-00002-of-00002.safetensors"));
  write_part(staging, 1, 2, std::span(&one, 1));
  EXPECT_THAT(commit_error(manifest, 2), HasSubstr("two parts of a checkpoint hold 'a'"));
  write_part(staging, 1, 2, {});
  manifest.parameters = {{"a", {3}}};
  EXPECT_THAT(commit_error(manifest, 2), HasSubstr("another shape"));
  manifest.parameters = {{"a", {2}}, {"b", {2}}};
  EXPECT_THAT(commit_error(manifest, 2), HasSubstr("no part of the checkpoint holds 'b'"));
  manifest.parameters = {};
  EXPECT_THAT(commit_error(manifest, 2), HasSubstr("hold 3 tensors, 0 were expected"));
  EXPECT_FALSE(newest_checkpoint(folder.path()).has_value());
  EXPECT_FALSE(fs::exists(folder.path() / "latest"));
  manifest.parameters = {{"a", {2}}};
  commit(folder.path(), staging, 2, manifest, "", 1);
  EXPECT_TRUE(newest_checkpoint(folder.path()).has_value());
}

TEST(Checkpoint, DamagedOnesAreSkippedAndNamed) {
  const runtime::TemporaryDirectory folder;
  const State state;
  const fs::path older = state.save(folder.path(), 10, 2, 5);
  const fs::path newer = state.save(folder.path(), 20, 2, 5);
  const fs::path part = newer / "optimizer-00002-of-00002.safetensors";
  fs::resize_file(part, fs::file_size(part) - 1);
  EXPECT_EQ(newest_checkpoint(folder.path()), older);
  EXPECT_THAT(error_of([&] { CheckpointReader reader(newer); }),
              HasSubstr("take another checkpoint"));
  fs::remove(older / "checkpoint.json");
  EXPECT_FALSE(newest_checkpoint(folder.path()).has_value());
  EXPECT_THAT(error_of([&] { CheckpointReader reader(folder.path()); }),
              HasSubstr("no checkpoint at"));
  EXPECT_THAT(error_of([&] { CheckpointReader reader("/nowhere"); }),
              HasSubstr("no checkpoint at /nowhere"));
}

TEST(Checkpoint, HostileManifestsAreRefused) {
  const runtime::TemporaryDirectory folder;
  const fs::path saved = State().save(folder.path(), 10, 1);
  const std::string good = runtime::read_text(saved / "checkpoint.json");
  const auto refused = [&](const std::function<void(nlohmann::json&)>& change) {
    auto json = nlohmann::json::parse(good);
    change(json);
    std::ofstream(saved / "checkpoint.json") << json.dump();
    return error_of([&] { CheckpointReader reader(saved); });
  };
  EXPECT_EQ(refused([](auto&) {}), "no error");
  EXPECT_THAT(refused([](auto& j) { j["format_version"] = 2; }),
              HasSubstr("this program reads version 1"));
  EXPECT_THAT(refused([](auto& j) { j["format"] = "x"; }), HasSubstr("is damaged"));
  EXPECT_THAT(refused([](auto& j) { j["step"] = "many"; }), HasSubstr("is damaged"));
  EXPECT_THAT(refused([](auto& j) { j["step"] = -4; }), HasSubstr("below zero"));
  EXPECT_THAT(refused([](auto& j) { j["files"][0]["name"] = "../../etc/passwd"; }),
              HasSubstr("names the file"));
  EXPECT_THAT(refused([](auto& j) { j["parameters"][0]["shape"] = {-1}; }),
              HasSubstr("has the extent -1"));
  EXPECT_THAT(refused([](auto& j) {
                j["parameters"][0]["shape"] = {3, 5};
              }),
              HasSubstr("differs from its manifest"));
  EXPECT_THAT(refused([](auto& j) { j["parameters"].push_back(j["parameters"][0]); }),
              HasSubstr("twice"));
  EXPECT_THAT(refused([](auto& j) { j["parameters"][0]["name"] = "gone"; }),
              HasSubstr("has no 'gone'"));
  EXPECT_THAT(refused([](auto& j) { j.erase("files"); }), HasSubstr("is damaged"));
}

TEST(Checkpoint, AFailingWriteLeavesNoFiles) {
  const runtime::TemporaryDirectory folder;
  ParameterState wrong;
  wrong.name = "a";
  wrong.shape = {4};
  const float two[2] = {1, 2};
  wrong.value = std::as_bytes(std::span(two));
  const fs::path staging = staging_folder(folder.path(), 1, 0);
  EXPECT_THROW(write_part(staging, 0, 1, std::span(&wrong, 1)), Error);
  EXPECT_TRUE(fs::is_empty(staging));
  discard(staging);
  EXPECT_FALSE(fs::exists(staging));
}

}  // namespace
}  // namespace craton::checkpoint
