#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

#include "craton/base/error.h"
#include "craton/runtime/file.h"
#include "craton/store/object_store.h"
#include "craton/volume/volume.h"
#include "craton/volume/zarr/metadata.h"
#include "craton/volume/zarr/zfp.h"

namespace craton::volume {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

fs::path data_folder() {
  const char* folder = std::getenv("CRATON_TEST_DATA");
  if (folder != nullptr) return folder;
  for (fs::path at = fs::current_path(); at.has_relative_path(); at = at.parent_path())
    if (fs::exists(at.parent_path() / "shared" / "data"))
      return at.parent_path() / "shared" / "data";
  return "../shared/data";
}

#define NEED_DATA()                         \
  if (!fs::exists(data_folder() / "zarrs")) \
  GTEST_SKIP() << "no sample data at " << data_folder().string() << "; set CRATON_TEST_DATA"

/// The floats of a little-endian, C-ordered .npy file.
std::vector<float> read_npy(const fs::path& path) {
  const auto bytes = runtime::read_file(path);
  const size_t header = std::to_integer<size_t>(bytes[8]) | std::to_integer<size_t>(bytes[9]) << 8;
  std::vector<float> out((bytes.size() - 10 - header) / 4);
  std::memcpy(out.data(), bytes.data() + 10 + header, out.size() * 4);
  return out;
}

std::vector<float> read_whole(const Volume& volume) {
  const auto shape = volume.info().shape();
  size_t count = 1;
  for (const int64_t n : shape) count *= static_cast<size_t>(n);
  std::vector<float> out(count);
  volume.read(std::vector<int64_t>(shape.size(), 0), shape, out);
  return out;
}

struct StoreCase {
  const char* path;
  const char* refusal;  // part of the message, or "" where the values are 0..99
  double tolerance = 0;
};

class ZarrSamples : public ::testing::TestWithParam<StoreCase> {};
INSTANTIATE_TEST_SUITE_P(
    All, ZarrSamples,
    ::testing::Values(
        StoreCase{"v2/array_blosc_C.zarr", ""}, StoreCase{"v2/array_blosc_F.zarr", ""},
        StoreCase{"v2/array_bz2_C.zarr", ""}, StoreCase{"v2/array_gzip_C.zarr", ""},
        StoreCase{"v2/array_none_C.zarr", ""}, StoreCase{"v2/array_none_F.zarr", ""},
        StoreCase{"v2/array_pcodec_C.zarr", "codec \"pcodec\" is not handled"},
        StoreCase{"v2/array_zfpy_C.zarr", "", 0.01}, StoreCase{"v2/array_zstd_C.zarr", ""},
        StoreCase{"v3/array_blosc.zarr", ""}, StoreCase{"v3/array_blosc_transpose.zarr", ""},
        StoreCase{"v3/array_bz2.zarr", ""}, StoreCase{"v3/array_gzip.zarr", ""},
        StoreCase{"v3/array_none.zarr", ""}, StoreCase{"v3/array_none_transpose.zarr", ""},
        StoreCase{"v3/array_optional.zarr/array", "data type \"optional\" is not handled"},
        StoreCase{"v3/array_optional_nested.zarr/array", "data type \"optional\" is not handled"},
        StoreCase{"v3/array_pcodec.zarr", "codec \"numcodecs.pcodec\" is not handled"},
        StoreCase{"v3/array_zfpy.zarr", "", 0.01}, StoreCase{"v3/array_zstd.zarr", ""},
        StoreCase{"v3/cities.zarr", "data type \"string\" is not handled"},
        StoreCase{"v3/array_optional.zarr", "there is no volume at"}),
    [](const auto& info) {
      std::string name = info.param.path;
      for (char& c : name)
        if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
      return name;
    });

TEST_P(ZarrSamples, ReadsOrIsRefusedByName) {
  NEED_DATA();
  const StoreCase& c = GetParam();
  if (c.tolerance > 0 && !zarr::zfp_is_available()) GTEST_SKIP() << "built without libzfp";
  const std::string uri = (data_folder() / "zarrs" / c.path).string();
  if (*c.refusal != '\0') {
    try {
      open_volume(uri);
      FAIL() << "was read";
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(c.refusal), std::string::npos) << e.what();
    }
    return;
  }
  const auto volume = open_volume(uri);
  ASSERT_EQ(volume->info().shape(), (std::vector<int64_t>{10, 10}));
  const auto values = read_whole(*volume);
  for (size_t i = 0; i < 100; ++i) EXPECT_NEAR(values[i], static_cast<float>(i), c.tolerance) << i;
}

struct MdioCase {
  const char* path;
  const char* truth;
  const char* format;
  int64_t live, traces;
  std::vector<int64_t> chunk;
};

class MdioSamples : public ::testing::TestWithParam<MdioCase> {};
INSTANTIATE_TEST_SUITE_P(
    All, MdioSamples,
    ::testing::Values(MdioCase{"mdio_v0/f3_v0.mdio",
                               "mdio_v0/f3_v0.truth.npy",
                               "MDIO v0 (Zarr v2)",
                               414,
                               414,
                               {8, 8, 32}},
                      MdioCase{"mdio_v0/xtgeo_missing_v0.mdio",
                               "mdio_v0/xtgeo_missing_v0.truth.npy",
                               "MDIO v0 (Zarr v2)",
                               4938,
                               5325,
                               {}},
                      MdioCase{"mdio_v1_layout/f3_zarr3.mdio",
                               "mdio_v1_layout/f3_zarr3.mdio.truth.npy",
                               "MDIO v1 (Zarr v3)",
                               414,
                               414,
                               {8, 8, 32}},
                      MdioCase{"mdio_v1_layout/f3_withdead_zarr3_shard_end.mdio",
                               "mdio_v1_layout/f3_withdead_zarr3_shard_end.mdio.truth.npy",
                               "MDIO v1 (Zarr v3)",
                               239,
                               414,
                               {8, 8, 16}},
                      MdioCase{"mdio_v1_layout/f3_withdead_zarr2.mdio",
                               "mdio_v1_layout/f3_withdead_zarr2.mdio.truth.npy",
                               "MDIO v1 (Zarr v2)",
                               239,
                               414,
                               {8, 8, 32}}));

TEST_P(MdioSamples, MatchesTheTruthExactly) {
  NEED_DATA();
  const MdioCase& c = GetParam();
  const auto volume = open_volume((data_folder() / c.path).string());
  const VolumeInfo& info = volume->info();
  EXPECT_EQ(info.format, c.format);
  if (!c.chunk.empty()) EXPECT_EQ(info.chunk_shape, c.chunk);
  int64_t live = 0;
  for (const uint8_t flag : volume->live()) live += flag;
  EXPECT_EQ(live, c.live);
  EXPECT_EQ(static_cast<int64_t>(volume->live().size()), c.traces);
  std::vector<float> truth = read_npy(data_folder() / c.truth);
  for (float& sample : truth) sample = std::isnan(sample) ? 0.0f : sample;  // dead traces
  const auto values = read_whole(*volume);
  ASSERT_EQ(values.size(), truth.size());
  EXPECT_EQ(std::memcmp(values.data(), truth.data(), truth.size() * 4), 0);
  // Chunk by chunk the same, with zeros past the edges.
  const auto shape = info.shape();
  size_t count = 1;
  for (const int64_t n : info.chunk_shape) count *= static_cast<size_t>(n);
  std::vector<float> chunk(count);
  size_t wrong = 0;
  const auto [ni, nj, nk] = std::tuple(shape[0], shape[1], shape[2]);
  const auto [ci, cj, ck] =
      std::tuple(info.chunk_shape[0], info.chunk_shape[1], info.chunk_shape[2]);
  for (int64_t a = 0; a * ci < ni; ++a)
    for (int64_t b = 0; b * cj < nj; ++b)
      for (int64_t d = 0; d * ck < nk; ++d) {
        volume->read_chunk(std::vector<int64_t>{a, b, d}, chunk);
        for (int64_t i = 0; i < ci; ++i)
          for (int64_t j = 0; j < cj; ++j)
            for (int64_t k = 0; k < ck; ++k) {
              const int64_t x = a * ci + i, y = b * cj + j, z = d * ck + k;
              const float expected = x < ni && y < nj && z < nk
                                         ? truth[static_cast<size_t>((x * nj + y) * nk + z)]
                                         : 0.0f;
              wrong += chunk[static_cast<size_t>((i * cj + j) * ck + k)] != expected;
            }
      }
  EXPECT_EQ(wrong, 0u);
}

TEST(MdioV0, GeometryStatisticsAndHeaders) {
  NEED_DATA();
  const auto volume = open_volume((data_folder() / "mdio_v0/f3_v0.mdio").string());
  const VolumeInfo& info = volume->info();
  ASSERT_EQ(info.axes.size(), 3u);
  EXPECT_EQ(info.axes[0].name, "inline");
  EXPECT_EQ(info.axes[0].coordinates.front(), 111);
  EXPECT_EQ(info.axes[1].coordinates.back(), 892);
  EXPECT_EQ(info.axes[2].name, "sample");
  EXPECT_EQ(info.axes[2].unit, "ms");
  EXPECT_EQ(info.axes[2].coordinates[74], 296);
  EXPECT_NEAR(info.statistics.mean(), 30.837522725476248, 1e-9);
  EXPECT_NEAR(info.statistics.standard_deviation(), 2393.0039549212515, 1e-6);
  EXPECT_EQ(info.statistics.min, -10239.0);
  const auto header = volume->segy_file_header();
  ASSERT_TRUE(header.has_value());
  EXPECT_TRUE(header->text.starts_with("C 1 Cropped F3"));
  EXPECT_EQ(json::parse(header->binary)["Interval"], 4000);
  const auto headers = volume->read_array("chunked_012_trace_headers");
  ASSERT_TRUE(headers.has_value());
  EXPECT_EQ(headers->shape, (std::vector<int64_t>{23, 18}));
  EXPECT_EQ(headers->bytes.size(), 23u * 18 * 232);
}

TEST(MdioV1, GeometryStatisticsAndPositions) {
  NEED_DATA();
  const auto volume =
      open_volume((data_folder() / "mdio_v1_layout/f3_withdead_zarr3_shard_end.mdio").string());
  const VolumeInfo& info = volume->info();
  EXPECT_EQ(info.name, "PostStack3DTime");
  EXPECT_EQ(info.axes[2].name, "time");
  EXPECT_EQ(info.axes[2].unit, "ms");
  EXPECT_EQ(info.axes[1].coordinates.front(), 875);
  EXPECT_EQ(info.shard_shape, (std::vector<int64_t>{16, 16, 48}));
  EXPECT_EQ(info.statistics.count, 14680);
  EXPECT_EQ(info.statistics.sum, 444385.0);
  EXPECT_EQ(info.statistics.max, 10827.0);
  const auto x = volume->read_array("cdp_x");
  ASSERT_TRUE(x.has_value());
  EXPECT_EQ(x->numbers().size(), 23u * 18);
  EXPECT_GT(x->numbers()[0], 600000.0);
  EXPECT_LT(x->numbers()[0], 640000.0);
}

/// A copy of one of the sample stores in memory, to be damaged.
std::shared_ptr<store::ObjectStore> copy_to_memory(const char* path, const std::string& name) {
  const auto from = store::open_store((data_folder() / path).string());
  const auto to = store::open_store("memory://" + name);
  for (const auto& object : from->list("")) to->put(object.key, *from->get(object.key));
  return to;
}

void put(store::ObjectStore& store, const std::string& key, const std::string& text) {
  store.put(key, std::as_bytes(std::span(text)));
}

json get_json(store::ObjectStore& store, const std::string& key) {
  const auto bytes = *store.get(key);
  return json::parse(reinterpret_cast<const char*>(bytes.data()),
                     reinterpret_cast<const char*>(bytes.data()) + bytes.size());
}

/// The metadata of a v2 array, changed where they stand: beside the chunks and consolidated.
void change_zarray(store::ObjectStore& store, const std::string& path,
                   const std::function<void(json&)>& change) {
  const std::string key = path + "/.zarray";
  json document = get_json(store, key);
  change(document);
  put(store, key, document.dump());
  if (!store.head(".zmetadata")) return;
  json all = get_json(store, ".zmetadata");
  all["metadata"][key] = document;
  put(store, ".zmetadata", all.dump());
}

/// Moves all objects below `prefix`.
void rename_objects(store::ObjectStore& store, const std::string& prefix,
                    const std::function<std::string(std::string)>& rename) {
  for (const auto& object : store.list(prefix)) {
    const std::string to = prefix + rename(object.key.substr(prefix.size()));
    if (to == object.key) continue;
    store.put(to, *store.get(object.key));
    store.remove(object.key);
  }
}

/// Decodes every chunk of an array and puts it back encoded otherwise.
void recode(store::ObjectStore& store, const std::string& path, const json& compressor) {
  zarr::ArrayMetadata before, after;
  change_zarray(store, path, [&](json& document) {
    before = zarr::parse_array_v2(document, nullptr, path);
    document["compressor"] = compressor;
    after = zarr::parse_array_v2(document, nullptr, path);
  });
  for (const auto& object : store.list(path + "/")) {
    if (object.key.ends_with(".zarray") || object.key.ends_with(".zattrs")) continue;
    zarr::Bytes elements(static_cast<size_t>(zarr::element_count(before.object_shape)) *
                         before.type.size);
    zarr::decode_chunk(before.codecs, *store.get(object.key), before.object_shape, before.type,
                       before.fill, elements);
    store.put(object.key,
              zarr::encode_chunk(after.codecs, elements, after.object_shape, after.type));
  }
}

// What changed between the releases of mdio-python that wrote v0.
TEST(MdioV0, EveryReleaseReadsAlike) {
  NEED_DATA();
  struct Case {
    const char* what;
    std::function<void(store::ObjectStore&)> change;
    double tolerance = 0;
  };
  const std::vector<Case> cases = {
      {"0.1: no dimension_separator means dots",
       [](store::ObjectStore& store) {
         for (const char* path : {"data/chunked_012", "metadata/live_mask"}) {
           change_zarray(store, path, [](json& d) { d.erase("dimension_separator"); });
           rename_objects(store, std::string(path) + "/", [](std::string key) {
             std::ranges::replace(key, '/', '.');
             return key;
           });
         }
       }},
      {"not consolidated", [](store::ObjectStore& store) { store.remove(".zmetadata"); }},
      {"another access pattern alone",
       [](store::ObjectStore& store) {
         rename_objects(store, "data/chunked_", [](std::string key) { return key.substr(1); });
         store.remove(".zmetadata");
       }},
      {"0.9: the mask in plain zstd",
       [](store::ObjectStore& store) {
         recode(store, "metadata/live_mask", {{"id", "zstd"}, {"level", 0}});
       }},
      {"0.9: the mask in one chunk per line",
       [](store::ObjectStore& store) {
         change_zarray(store, "metadata/live_mask", [](json& d) {
           d["chunks"] = {1, 18};
           d["compressor"] = nullptr;
         });
         store.remove("metadata/live_mask/0/0");
         for (int i = 0; i < 23; ++i)
           put(store, fmt::format("metadata/live_mask/{}/0", i), std::string(18, '\1'));
       }},
      {"an all-zero volume's mean",
       [](store::ObjectStore& store) {
         std::string text = get_json(store, ".zattrs").dump();
         const size_t at = text.find("\"mean\":") + 7;
         text.replace(at, text.find(',', at) - at, "NaN");
         put(store, ".zattrs", text);
         store.remove(".zmetadata");
       }},
      {"lossy",
       [](store::ObjectStore& store) {
         recode(store, "data/chunked_012",
                {{"id", "zfpy"}, {"mode", 4}, {"tolerance", 0.01}, {"rate", -1}});
       },
       0.01},
  };
  const std::vector<float> truth = read_npy(data_folder() / "mdio_v0/f3_v0.truth.npy");
  for (size_t n = 0; n < cases.size(); ++n) {
    SCOPED_TRACE(cases[n].what);
    if (cases[n].tolerance > 0 && !zarr::zfp_is_available()) continue;
    const std::string name = "v0-release-" + std::to_string(n);
    cases[n].change(*copy_to_memory("mdio_v0/f3_v0.mdio", name));
    const auto volume = open_volume("memory://" + name);
    EXPECT_EQ(volume->info().format, "MDIO v0 (Zarr v2)");
    EXPECT_THAT(volume->live(), ::testing::Each(1));
    const auto values = read_whole(*volume);
    ASSERT_EQ(values.size(), truth.size());
    size_t wrong = 0;
    for (size_t i = 0; i < truth.size(); ++i)
      wrong += !(std::fabs(values[i] - truth[i]) <= cases[n].tolerance);
    EXPECT_EQ(wrong, 0u);
  }
}

TEST(MdioV0, CoordinatesThatAreNoNumbersAreAnError) {
  NEED_DATA();
  const auto store = copy_to_memory("mdio_v0/f3_v0.mdio", "v0-coordinates");
  store->remove(".zmetadata");
  json attributes = get_json(*store, ".zattrs");
  attributes["dimension"][1]["coords"][3] = "878";
  put(*store, ".zattrs", attributes.dump());
  try {
    open_volume("memory://v0-coordinates");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kCorrupt);
    EXPECT_NE(std::string(e.what()).find("\"878\""), std::string::npos) << e.what();
  }
}

TEST(MdioV1, WhatMdioCppWritesOtherwise) {
  NEED_DATA();
  const auto store = copy_to_memory("mdio_v1_layout/f3_zarr3.mdio", "mdio-cpp");
  json amplitude = get_json(*store, "amplitude/zarr.json");
  amplitude["codecs"] = json::parse(
      R"([{"name":"bytes"},{"name":"blosc","configuration":{"algorithm":"zstd","level":5}}])");
  amplitude["attributes"]["statsV1"] =
      json::parse(amplitude["attributes"]["statsV1"].get<std::string>());
  put(*store, "amplitude/zarr.json", amplitude.dump());
  json root = get_json(*store, "zarr.json");
  root["attributes"]["textHeader"] = "C 1 in the root";
  put(*store, "zarr.json", root.dump());
  rename_objects(*store, "cdp", [](std::string key) { return "-" + key.substr(1); });
  const auto volume = open_volume("memory://mdio-cpp");
  std::vector<float> truth = read_npy(data_folder() / "mdio_v1_layout/f3_zarr3.mdio.truth.npy");
  EXPECT_EQ(read_whole(*volume), truth);
  EXPECT_EQ(volume->info().statistics.count, 25302);
  ASSERT_TRUE(volume->segy_file_header().has_value());
  EXPECT_EQ(volume->segy_file_header()->text, "C 1 in the root");
  EXPECT_TRUE(volume->read_array("cdp-x").has_value());
}

TEST(MdioV1, ConsolidatedMetadataAreNotNeeded) {
  NEED_DATA();
  const auto store = copy_to_memory("mdio_v1_layout/f3_withdead_zarr2.mdio", "not-consolidated");
  store->remove(".zmetadata");
  const auto volume = open_volume("memory://not-consolidated");
  EXPECT_EQ(volume->info().format, "MDIO v1 (Zarr v2)");
  const auto whole =
      open_volume((data_folder() / "mdio_v1_layout/f3_withdead_zarr2.mdio").string());
  EXPECT_EQ(read_whole(*volume), read_whole(*whole));
  EXPECT_EQ(volume->live(), whole->live());
}

TEST_P(MdioSamples, TracesInAnyOrderAreThoseOfTheWhole) {
  NEED_DATA();
  const auto volume = open_volume((data_folder() / GetParam().path).string());
  const auto shape = volume->info().shape();
  const auto whole = read_whole(*volume);
  const auto samples = static_cast<size_t>(shape[2]);
  std::vector<int64_t> traces(static_cast<size_t>(shape[0] * shape[1]));
  std::iota(traces.begin(), traces.end(), 0);
  std::ranges::shuffle(traces, std::mt19937(11));
  traces.resize(200);
  traces.push_back(traces.front());
  std::vector<float> trace(samples);
  for (const int64_t n : traces) {
    volume->read(std::vector<int64_t>{n / shape[1], n % shape[1], 0},
                 std::vector<int64_t>{1, 1, shape[2]}, trace);
    ASSERT_EQ(
        std::memcmp(trace.data(), whole.data() + static_cast<size_t>(n) * samples, 4 * samples), 0)
        << n;
  }
}

TEST(MdioV1, StrangeArraysDoNotDisturbTheOthers) {
  NEED_DATA();
  const auto store = copy_to_memory("mdio_v1_layout/f3_zarr3.mdio", "strange");
  put(*store, "headers/zarr.json",
      R"({"zarr_format":3,"node_type":"array","shape":[23,18],"data_type":{"name":"from.the.future"}})");
  put(*store, "broken/zarr.json", "{{{");
  put(*store, "raw_headers/zarr.json",
      R"({"zarr_format":3,"node_type":"array","shape":[23,18],"data_type":"quaternion","chunk_grid":
    {"name":"regular","configuration":{"chunk_shape":[23,18]}},"chunk_key_encoding":"default","fill_value":0,"codecs":["bytes"]})");
  json time = get_json(*store, "time/zarr.json");
  time["data_type"] = "numpy.timedelta64";
  put(*store, "time/zarr.json", time.dump());
  const auto volume = open_volume("memory://strange");
  EXPECT_EQ(volume->trace_header_bytes(), 0u);
  EXPECT_EQ(volume->info().axes[2].coordinates[2],
            2.0);  // counted, since the coordinates cannot be read
  EXPECT_THROW(volume->read_array("headers"), Error);
  EXPECT_THROW(open_volume("memory://strange", "headers"), Error);
  std::vector<float> sample(1);
  volume->read(std::vector<int64_t>{3, 4, 5}, std::vector<int64_t>{1, 1, 1}, sample);
}

TEST(MdioV1, StatisticsAsStringObjectOrList) {
  NEED_DATA();
  const auto store = copy_to_memory("mdio_v1_layout/f3_zarr3.mdio", "stats");
  json document = get_json(*store, "amplitude/zarr.json");
  const json object = json::parse(document["attributes"]["statsV1"].get<std::string>());
  for (const json& spelling : {json(object.dump()), object, json::array({object})}) {
    document["attributes"]["statsV1"] = spelling;
    put(*store, "amplitude/zarr.json", document.dump());
    EXPECT_EQ(open_volume("memory://stats")->info().statistics.count, 25302);
  }
  for (const json& nonsense :
       {json("no json"), json(7), json::array(), json::object({{"count", "many"}})}) {
    document["attributes"]["statsV1"] = nonsense;
    put(*store, "amplitude/zarr.json", document.dump());
    EXPECT_EQ(open_volume("memory://stats")->info().statistics.count, 0);
  }
}

TEST(MdioV1, MissingChunksAreZerosAndDamagedOnesErrors) {
  NEED_DATA();
  const auto store = copy_to_memory("mdio_v1_layout/f3_zarr3.mdio", "holes");
  store->remove("amplitude/c/0/0/0");
  put(*store, "amplitude/c/1/0/0", "not a blosc frame");
  const auto volume = open_volume("memory://holes");
  std::vector<float> block(8 * 8 * 32, 1.0f);
  volume->read(std::vector<int64_t>{0, 0, 0}, std::vector<int64_t>{8, 8, 32}, block);
  EXPECT_THAT(block, ::testing::Each(0.0f));
  try {
    volume->read(std::vector<int64_t>{8, 0, 0}, std::vector<int64_t>{8, 8, 32}, block);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kCorrupt);
    EXPECT_NE(std::string(e.what()).find("amplitude/c/1/0/0"), std::string::npos) << e.what();
  }
}

TEST(MdioV1, MaskOfAnotherShapeIsAnError) {
  NEED_DATA();
  const auto store = copy_to_memory("mdio_v1_layout/f3_zarr3.mdio", "mask");
  json document = get_json(*store, "trace_mask/zarr.json");
  document["shape"] = {23, 19};
  put(*store, "trace_mask/zarr.json", document.dump());
  EXPECT_THROW(open_volume("memory://mask"), Error);
}

TEST(MdioV1, HugeShapesAreRefusedWithoutAllocating) {
  NEED_DATA();
  const auto store = copy_to_memory("mdio_v1_layout/f3_zarr3.mdio", "huge");
  const json good = get_json(*store, "amplitude/zarr.json");
  for (const json& shape :
       {json{int64_t{1} << 40, 18, 75}, json{int64_t{1} << 24, int64_t{1} << 24, 75},
        json{23, 18, int64_t{1} << 60}, json{0, 1 << 25, 1 << 25}}) {
    json document = good;
    document["shape"] = shape;
    put(*store, "amplitude/zarr.json", document.dump());
    EXPECT_THROW(open_volume("memory://huge"), Error);
  }
}

TEST(PlainZarr, PicksTheLargestArrayAndNamesAxes) {
  const auto store = store::open_store("memory://plain");
  const auto array = [&](const std::string& path, const json& shape, const char* type,
                         const json& names) {
    put(*store, path + "/zarr.json",
        json{{"zarr_format", 3},
             {"node_type", "array"},
             {"shape", shape},
             {"data_type", type},
             {"chunk_grid", {{"name", "regular"}, {"configuration", {{"chunk_shape", shape}}}}},
             {"chunk_key_encoding", "default"},
             {"fill_value", 2},
             {"codecs", {"bytes"}},
             {"dimension_names", names}}
            .dump());
  };
  put(*store, "zarr.json", R"({"zarr_format":3,"node_type":"group"})");
  put(*store, "deep/zarr.json", R"({"zarr_format":3,"node_type":"group"})");
  array("deep/small", {2, 3}, "float32", nullptr);
  array("deep/large", {4, 5}, "int16", {"line", nullptr});
  array("deep/line", {4}, "int32", {"line"});
  array("deep/long", {100}, "float32", nullptr);
  const int32_t lines[] = {7, 9, 11, 13};
  store->put("deep/line/c/0", std::as_bytes(std::span(lines)));
  const auto volume = open_volume("memory://plain");
  EXPECT_EQ(volume->info().format, "Zarr v3");
  EXPECT_EQ(volume->info().name, "deep/large");
  EXPECT_EQ(volume->info().sample_type, "int16");
  EXPECT_EQ(volume->info().axes[0].coordinates, (std::vector<double>{7, 9, 11, 13}));
  EXPECT_EQ(volume->info().axes[1].name, "axis1");
  EXPECT_THAT(read_whole(*volume), ::testing::Each(2.0f));
  EXPECT_EQ(open_volume("memory://plain", "deep/small")->info().shape(),
            (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(open_volume("memory://plain/deep")->info().name, "large");
}

}  // namespace
}  // namespace craton::volume
