#include "craton/volume/zarr/array.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "craton/base/error.h"
#include "craton/runtime/thread_pool.h"
#include "craton/volume/zarr/hierarchy.h"

namespace craton::volume::zarr {
namespace {

using nlohmann::json;

std::shared_ptr<store::ObjectStore> fresh_store() {
  static int counter = 0;
  return store::open_store("memory://array" + std::to_string(++counter));
}

void put(store::ObjectStore& store, const std::string& key, const std::string& text) {
  store.put(key, std::as_bytes(std::span(text)));
}

float value_at(int64_t i, int64_t j, int64_t k) {
  return static_cast<float>(1 + i * 10000 + j * 100 + k);
}

/// An array of 11 x 13 x 17 floats in chunks of 4 x 5 x 6, some of them absent.
struct Made {
  std::shared_ptr<store::ObjectStore> store = fresh_store();
  std::vector<int64_t> shape{11, 13, 17}, chunk{4, 5, 6};
  std::vector<float> truth = std::vector<float>(11 * 13 * 17, -7.0f);

  bool is_absent(int64_t i, int64_t j, int64_t k) const { return (i + 2 * j + k) % 5 == 0; }

  /// Encodes one chunk of the volume; fills in the truth.
  Bytes elements(int64_t ci, int64_t cj, int64_t ck) {
    std::vector<float> out;
    for (int64_t i = ci * 4; i < ci * 4 + 4; ++i)
      for (int64_t j = cj * 5; j < cj * 5 + 5; ++j)
        for (int64_t k = ck * 6; k < ck * 6 + 6; ++k) {
          out.push_back(value_at(i, j, k));
          if (i < 11 && j < 13 && k < 17)
            truth[static_cast<size_t>((i * 13 + j) * 17 + k)] = value_at(i, j, k);
        }
    const auto bytes = std::as_bytes(std::span(out));
    return {bytes.begin(), bytes.end()};
  }

  json document(const json& codecs) const {
    return {{"zarr_format", 3},
            {"node_type", "array"},
            {"shape", shape},
            {"data_type", "float32"},
            {"chunk_grid", {{"name", "regular"}, {"configuration", {{"chunk_shape", chunk}}}}},
            {"chunk_key_encoding", "default"},
            {"fill_value", -7.0},
            {"codecs", codecs}};
  }
};

Made make_plain(const json& codecs) {
  Made made;
  const json document = made.document(codecs);
  put(*made.store, "zarr.json", document.dump());
  Array array(made.store, "", parse_array_v3(document, "zarr.json"));
  for (int64_t i = 0; i < 3; ++i)
    for (int64_t j = 0; j < 3; ++j)
      for (int64_t k = 0; k < 3; ++k)
        if (!made.is_absent(i, j, k))
          array.write_chunk(std::vector<int64_t>{i, j, k}, made.elements(i, j, k));
  return made;
}

/// The same in shards of 8 x 10 x 12; inner chunks lie in reverse order, with a gap between them.
Made make_sharded(bool index_at_start) {
  Made made;
  const json codecs = {{{"name", "sharding_indexed"},
                        {"configuration",
                         {{"chunk_shape", made.chunk},
                          {"codecs", {"bytes", "zstd"}},
                          {"index_location", index_at_start ? "start" : "end"}}}}};
  json document = made.document(codecs);
  const std::vector<int64_t> shard_shape{8, 10, 12};
  document["chunk_grid"]["configuration"]["chunk_shape"] = shard_shape;
  put(*made.store, "zarr.json", document.dump());
  const ArrayMetadata metadata = parse_array_v3(document, "zarr.json");
  const Sharding& sharding = *metadata.codecs.sharding;
  const size_t index_bytes = shard_index_bytes(sharding, shard_shape);
  for (int64_t si = 0; si < 2; ++si)
    for (int64_t sj = 0; sj < 2; ++sj)
      for (int64_t sk = 0; sk < 2; ++sk) {
        std::vector<uint64_t> entries(16, ShardIndex::kAbsent);
        Bytes body;
        for (int64_t n = 7; n >= 0; --n) {
          const int64_t i = si * 2 + n / 4, j = sj * 2 + n / 2 % 2, k = sk * 2 + n % 2;
          if (i > 2 || j > 2 || k > 2 || made.is_absent(i, j, k)) continue;
          const Bytes chunk =
              encode_chunk(sharding.inner, made.elements(i, j, k), made.chunk, metadata.type);
          body.resize(body.size() + 3);
          entries[static_cast<size_t>(2 * n)] = body.size() + (index_at_start ? index_bytes : 0);
          entries[static_cast<size_t>(2 * n + 1)] = chunk.size();
          body.insert(body.end(), chunk.begin(), chunk.end());
        }
        const Bytes index = encode_chunk(sharding.index, std::as_bytes(std::span(entries)),
                                         std::vector<int64_t>{2, 2, 2, 2}, {Kind::kUint, 8});
        body.insert(index_at_start ? body.begin() : body.end(), index.begin(), index.end());
        made.store->put(metadata.object_key(std::vector<int64_t>{si, sj, sk}), body);
      }
  return made;
}

void expect_reads(const Made& made) {
  const auto array = Hierarchy(made.store).open_array("");
  ASSERT_NE(array, nullptr);
  EXPECT_EQ(array->metadata().chunk_shape(), made.chunk);
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    std::vector<int64_t> origin(3), extent(3);
    for (size_t i = 0; i < 3; ++i) {
      origin[i] =
          round == 0 ? 0 : static_cast<int64_t>(random() % static_cast<uint32_t>(made.shape[i]));
      extent[i] = round == 0 ? made.shape[i]
                             : 1 + static_cast<int64_t>(
                                       random() % static_cast<uint32_t>(made.shape[i] - origin[i]));
    }
    std::vector<float> out(static_cast<size_t>(element_count(extent)));
    array->read(origin, extent, std::as_writable_bytes(std::span(out)));
    size_t wrong = 0, n = 0;
    for (int64_t i = 0; i < extent[0]; ++i)
      for (int64_t j = 0; j < extent[1]; ++j)
        for (int64_t k = 0; k < extent[2]; ++k)
          wrong += out[n++] != made.truth[static_cast<size_t>(
                                   ((origin[0] + i) * 13 + origin[1] + j) * 17 + origin[2] + k)];
    ASSERT_EQ(wrong, 0u) << "round " << round;
  }
  Bytes chunk(array->chunk_bytes());
  EXPECT_FALSE(array->read_chunk(std::vector<int64_t>{0, 0, 0}, chunk));
  EXPECT_TRUE(array->read_chunk(std::vector<int64_t>{0, 0, 1}, chunk));
}

TEST(Array, ReadsAnyBlock) { expect_reads(make_plain(json::array({"bytes", "zstd"}))); }
TEST(Array, ReadsAnyBlockTransposedBigEndian) {
  expect_reads(make_plain(json::parse(
      R"([{"name":"transpose","configuration":{"order":[2,0,1]}},{"name":"bytes","configuration":{"endian":"big"}},"gzip"])")));
}
TEST(Array, ReadsAnyBlockOfShards) {
  expect_reads(make_sharded(false));
  expect_reads(make_sharded(true));
}

TEST(Array, ManyThreadsReadTheSame) {
  const Made made = make_sharded(false);
  const auto array = Hierarchy(made.store).open_array("");
  std::atomic<int> wrong{0};
  runtime::parallel_for(64, 4, [&](size_t) {
    wrong += std::memcmp(array->read_all().data(), made.truth.data(), made.truth.size() * 4) != 0;
  });
  EXPECT_EQ(wrong, 0);
}

TEST(Array, BlocksOutsideAreErrors) {
  const Made made = make_plain(json::array({"bytes"}));
  const auto array = Hierarchy(made.store).open_array("");
  Bytes out(4);
  for (const auto& [origin, extent] :
       std::vector<std::pair<std::vector<int64_t>, std::vector<int64_t>>>{
           {{11, 0, 0}, {1, 1, 1}},
           {{-1, 0, 0}, {1, 1, 1}},
           {{0, 0, 0}, {12, 1, 1}},
           {{0, 0}, {1, 1}},
           {{0, 0, int64_t{1} << 62}, {1, 1, 1}},
           {{0, 0, 0}, {1, 1, -1}}})
    EXPECT_THROW(array->read(origin, extent, out), Error);
}

TEST(Array, DamagedObjectsNameTheirKey) {
  for (const bool sharded : {false, true}) {
    Made made = sharded ? make_sharded(false) : make_plain(json::array({"bytes", "zstd"}));
    const std::string key = sharded ? "c/0/0/0" : "c/0/0/1";
    Bytes object = *made.store->get(key);
    object.resize(20);
    made.store->put(key, object);
    const auto array = Hierarchy(made.store).open_array("");
    Bytes out(array->chunk_bytes());
    try {
      array->read_chunk(std::vector<int64_t>{0, 0, 1}, out);
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kCorrupt);
      EXPECT_NE(std::string(e.what()).find(key), std::string::npos) << e.what();
    }
  }
}

/// A store that answers the first request for each object, and for the index of each shard, with
/// damaged bytes.
class Unreliable final : public store::ObjectStore {
 public:
  explicit Unreliable(std::shared_ptr<store::ObjectStore> good) : good_(std::move(good)) {}
  std::string uri() const override { return good_->uri(); }
  std::optional<store::Bytes> get(std::string_view key) override {
    return spoil(key, good_->get(key));
  }
  std::optional<store::Bytes> get_range(std::string_view key, uint64_t offset,
                                        uint64_t length) override {
    return spoil(fmt::format("{} {}", key, offset == 0 ? "index" : "chunks"),
                 good_->get_range(key, offset, length));
  }
  std::optional<store::Bytes> get_suffix(std::string_view key, uint64_t length) override {
    return spoil(fmt::format("{} index", key), good_->get_suffix(key, length));
  }
  std::optional<store::ObjectInfo> head(std::string_view key) override { return good_->head(key); }
  std::vector<store::ObjectInfo> list(std::string_view prefix) override {
    return good_->list(prefix);
  }
  void put(std::string_view, std::span<const std::byte>) override { FAIL(); }
  bool put_if_absent(std::string_view, std::span<const std::byte>) override { return false; }
  std::unique_ptr<store::Upload> start_upload(std::string_view) override { return nullptr; }
  void remove(std::string_view) override {}
  size_t spoiled() const { return seen_.size(); }

 private:
  std::optional<store::Bytes> spoil(std::string_view what, std::optional<store::Bytes> bytes) {
    if (bytes && !bytes->empty() && seen_.emplace(what).second)
      std::ranges::fill(*bytes, std::byte{0xa5});
    return bytes;
  }
  std::shared_ptr<store::ObjectStore> good_;
  std::set<std::string, std::less<>> seen_;
};

TEST(Array, DamagedBytesAreFetchedOnceMore) {
  for (const bool sharded : {false, true}) {
    const Made made = sharded ? make_sharded(true) : make_plain(json::array({"bytes", "zstd"}));
    const auto store = std::make_shared<Unreliable>(made.store);
    const Array array(store, "", *Hierarchy(made.store).array_metadata(""));
    const Bytes all = array.read_all();
    EXPECT_EQ(std::memcmp(all.data(), made.truth.data(), all.size()), 0);
    EXPECT_GT(store->spoiled(), 8u);
    const Array again(std::make_shared<Unreliable>(made.store), "", array.metadata());
    Bytes chunk(array.chunk_bytes());
    EXPECT_TRUE(again.read_chunk(std::vector<int64_t>{0, 0, 1}, chunk));
  }
}

TEST(Array, ShardsInShards) {
  // 8 x 8 in shards of 8 x 8 that hold shards of 4 x 4 that hold single elements: the inner index
  // is four times as large as what it indexes.
  const auto store = fresh_store();
  json document = Made().document(json::array());
  document["shape"] = {8, 8};
  document["chunk_grid"]["configuration"]["chunk_shape"] = {8, 8};
  document["codecs"] = json::parse(
      R"([{"name":"sharding_indexed","configuration":{"chunk_shape":[4,4],"index_codecs":["bytes"],"codecs":[
           {"name":"sharding_indexed","configuration":{"chunk_shape":[1,1],"index_codecs":["bytes"],"codecs":["bytes"]}}]}}])");
  const ArrayMetadata metadata = parse_array_v3(document, "zarr.json");
  const Sharding& outer = *metadata.codecs.sharding;
  const Sharding& inner = *outer.inner.sharding;
  std::vector<std::optional<Bytes>> shards(4);
  for (size_t n : {0u, 1u, 3u}) {
    std::vector<std::optional<Bytes>> elements(16);
    for (size_t i = 0; i < 16; i += 2) {
      const float value = static_cast<float>(100 * n + i);
      const auto bytes = std::as_bytes(std::span(&value, 1));
      elements[i] = Bytes(bytes.begin(), bytes.end());
    }
    shards[n] = encode_shard(inner, elements, outer.chunk_shape);
  }
  store->put("c/0/0", encode_shard(outer, shards, metadata.object_shape));
  const Bytes all = Array(store, "", metadata).read_all();
  float values[64];
  std::memcpy(values, all.data(), sizeof(values));
  for (size_t i = 0; i < 8; ++i)
    for (size_t j = 0; j < 8; ++j) {
      const size_t n = i / 4 * 2 + j / 4, element = i % 4 * 4 + j % 4;
      const float expected =
          n == 2 || element % 2 == 1 ? -7.0f : static_cast<float>(100 * n + element);
      EXPECT_EQ(values[8 * i + j], expected) << i << " " << j;
    }
}

TEST(Array, NoAxesIsOneElement) {
  const auto store = fresh_store();
  put(*store, "zarr.json",
      R"({"zarr_format":3,"node_type":"array","shape":[],"data_type":"int32","chunk_grid":{"name":"regular",
    "configuration":{"chunk_shape":[]}},"chunk_key_encoding":"default","fill_value":5,"codecs":["bytes"]})");
  const auto array = Hierarchy(store).open_array("");
  EXPECT_EQ(array->read_all(), (Bytes{std::byte{5}, std::byte{0}, std::byte{0}, std::byte{0}}));
  const int32_t seven = 7;
  store->put("c", std::as_bytes(std::span(&seven, 1)));
  EXPECT_EQ(array->read_all()[0], std::byte{7});
}

TEST(Hierarchy, NestedGroupsOfBothFormats) {
  for (const int format : {2, 3}) {
    for (const bool consolidated : {false, true}) {
      const auto store = fresh_store();
      const json v2 = {{"zarr_format", 2}, {"shape", {4}},          {"chunks", {4}},
                       {"dtype", "<f4"},   {"compressor", nullptr}, {"filters", nullptr},
                       {"order", "C"},     {"fill_value", 3}};
      Made made;
      json v3 = made.document(json::array({"bytes"}));
      const json group = {{"zarr_format", 3}, {"node_type", "group"}};
      if (format == 2) {
        put(*store, ".zgroup", R"({"zarr_format":2})");
        put(*store, "a/.zgroup", R"({"zarr_format":2})");
        if (consolidated) {
          put(*store, ".zmetadata",
              json{{"zarr_consolidated_format", 1},
                   {"metadata",
                    {{"a/b/c/.zarray", v2}, {"top/.zarray", v2}, {"a/b/c/.zattrs", {{"k", 1}}}}}}
                  .dump());
        } else {
          put(*store, "a/b/c/.zarray", v2.dump());
          put(*store, "a/b/c/.zattrs", R"({"k":1})");
          put(*store, "top/.zarray", v2.dump());
        }
      } else {
        v3["attributes"] = {{"k", 1}};
        json root = group;
        if (consolidated) {
          root["consolidated_metadata"] = {
              {"kind", "inline"},
              {"must_understand", false},
              {"metadata", {{"a", group}, {"a/b", group}, {"a/b/c", v3}, {"top", v3}}}};
        } else {
          put(*store, "a/zarr.json", group.dump());
          put(*store, "a/b/zarr.json", group.dump());
          put(*store, "a/b/c/zarr.json", v3.dump());
          put(*store, "top/zarr.json", v3.dump());
        }
        put(*store, "zarr.json", root.dump());
      }
      const Hierarchy hierarchy(store);
      EXPECT_EQ(hierarchy.format(), format);
      EXPECT_THAT(hierarchy.list_arrays(), ::testing::ElementsAre("a/b/c", "top"));
      EXPECT_EQ(hierarchy.attributes("a/b/c")["k"], 1);
      EXPECT_NE(hierarchy.open_array("a/b/c"), nullptr);
      EXPECT_EQ(hierarchy.open_array("a/b"), nullptr);
      EXPECT_EQ(hierarchy.open_array("a/x"), nullptr);
    }
  }
}

TEST(Hierarchy, DamagedConsolidatedMetadataAreNotNeeded) {
  const auto store = fresh_store();
  put(*store, ".zgroup", R"({"zarr_format":2})");
  put(*store, ".zmetadata", "{\"metadata\": [");
  put(*store, "x/.zarray",
      R"({"zarr_format":2,"shape":[4],"chunks":[4],"dtype":"<f4","compressor":null,"fill_value":3})");
  EXPECT_THAT(Hierarchy(store).list_arrays(), ::testing::ElementsAre("x"));
  put(*store, ".zmetadata", std::string(1 << 20, '['));
  EXPECT_THAT(Hierarchy(store).list_arrays(), ::testing::ElementsAre("x"));
}

}  // namespace
}  // namespace craton::volume::zarr
