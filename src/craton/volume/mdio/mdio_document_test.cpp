// The documents of a written store, as the MDIO v1 schema and Zarr ask for them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "craton/store/object_store.h"
#include "craton/volume/volume.h"
#include "craton/volume/zarr/zfp.h"

namespace craton::volume {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::IsSupersetOf;
using ::testing::MatchesRegex;

Axis make_axis(const std::string& name, int64_t size, double first, double step,
               const std::string& unit = "") {
  Axis axis{name, unit};
  for (int64_t i = 0; i < size; ++i)
    axis.coordinates.push_back(first + step * static_cast<double>(i));
  return axis;
}

/// Two lines of three traces; the third trace of each line is dead.
std::shared_ptr<store::ObjectStore> write_store(const std::string& uri,
                                                const std::function<void(VolumeSpec&)>& change) {
  VolumeSpec spec;
  spec.name = "PostStack3DTime";
  spec.axes = {make_axis("inline", 2, 10, 1), make_axis("crossline", 3, 20, 2),
               make_axis("time", 4, 0.5, 0.5, "ms")};
  spec.chunk_shape = {1, 3, 4};
  spec.cdp_x = {1, 2, 3, 4, 5, 6};
  spec.cdp_y = {6, 5, 4, 3, 2, 1};
  spec.trace_header_bytes = 240;
  change(spec);
  auto writer = create_volume(uri, spec);
  const std::vector<float> samples = {1, 2, 3, 4, 0, -2, -3, -4, 9, 9, 9, 9};
  for (int64_t i = 0; i < 2; ++i) {
    writer->write_chunk(std::vector<int64_t>{i, 0, 0}, samples, std::vector<uint8_t>{1, 1, 0});
    writer->write_trace_headers(std::vector<int64_t>{i, 0},
                                std::vector<std::byte>(3 * 240, std::byte{1}));
  }
  SegyFileHeader header;
  header.text = "C 1 a line";
  header.binary = R"({"sample_interval":500})";
  header.raw_binary.assign(400, std::byte{2});
  writer->set_segy_file_header(header);
  writer->set_attribute("processing", R"({"step":"migrated"})");
  writer->finish();
  return store::open_store(uri);
}

json document(store::ObjectStore& store, const std::string& key) {
  const auto bytes = store.get(key);
  if (!bytes) {
    ADD_FAILURE() << "no " << key;
    return {};
  }
  return json::parse(reinterpret_cast<const char*>(bytes->data()),
                     reinterpret_cast<const char*>(bytes->data()) + bytes->size());
}

void expect_statistics(const json& text) {
  const json s = json::parse(text.get<std::string>());
  EXPECT_EQ(s["count"], 14);
  EXPECT_EQ(s["sum"], 2.0);
  EXPECT_EQ(s["sumSquares"], 118.0);
  EXPECT_EQ(s["min"], -4.0);
  EXPECT_EQ(s["max"], 4.0);
  const auto counts = s["histogram"]["counts"].get<std::vector<int64_t>>();
  EXPECT_EQ(counts.size(), s["histogram"]["binCenters"].size());
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), int64_t{0}), 14);
}

void expect_root(const json& attributes) {
  EXPECT_THAT(attributes["apiVersion"].get<std::string>(),
              MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
  EXPECT_THAT(
      attributes["createdOn"].get<std::string>(),
      MatchesRegex("[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{6}\\+00:00"));
  EXPECT_EQ(attributes["name"], "PostStack3DTime");
  const json& free = attributes["attributes"];
  EXPECT_EQ(free["surveyType"], "3D");
  EXPECT_EQ(free["gatherType"], "stacked");
  EXPECT_EQ(free["defaultVariableName"], "amplitude");
  EXPECT_EQ(free["processing"]["step"], "migrated");
}

void expect_file_header(const json& attributes) {
  EXPECT_EQ(attributes["textHeader"], "C 1 a line");
  EXPECT_EQ(attributes["binaryHeader"]["sample_interval"], 500);
  EXPECT_EQ(attributes["rawBinaryHeader"].get<std::string>().size(), 536u);
}

TEST(MdioDocuments, Version3) {
  const auto store = write_store("memory://documents-v3", [](VolumeSpec&) {});
  const json root = document(*store, "zarr.json");
  EXPECT_EQ(root["node_type"], "group");
  EXPECT_FALSE(root.contains("consolidated_metadata"));
  expect_root(root["attributes"]);
  const json blosc4 = json::parse(
      R"([{"name":"bytes","configuration":{"endian":"little"}},
          {"name":"blosc","configuration":{"cname":"zstd","clevel":3,"shuffle":"shuffle","typesize":4,"blocksize":0}}])");
  const json amplitude = document(*store, "amplitude/zarr.json");
  EXPECT_EQ(amplitude["data_type"], "float32");
  EXPECT_EQ(amplitude["fill_value"], "NaN");
  EXPECT_EQ(amplitude["codecs"], blosc4);
  EXPECT_EQ(amplitude["dimension_names"], json({"inline", "crossline", "time"}));
  EXPECT_EQ(amplitude["attributes"]["coordinates"], "cdp_x cdp_y");
  expect_statistics(amplitude["attributes"]["statsV1"]);
  const json inline_axis = document(*store, "inline/zarr.json");
  EXPECT_EQ(inline_axis["data_type"], "int32");
  EXPECT_EQ(inline_axis["codecs"][1]["name"], "zstd");
  EXPECT_EQ(inline_axis["dimension_names"], json({"inline"}));
  const json time = document(*store, "time/zarr.json");
  EXPECT_EQ(time["data_type"], "float64");  // half milliseconds
  EXPECT_EQ(time["attributes"]["unitsV1"], json({{"time", "ms"}}));
  for (const char* name : {"cdp_x", "cdp_y"}) {
    const json position = document(*store, std::string(name) + "/zarr.json");
    EXPECT_EQ(position["data_type"], "float64");
    EXPECT_EQ(position["shape"], json({2, 3}));
    EXPECT_EQ(position["attributes"]["unitsV1"], json({{"length", "m"}}));
  }
  const json mask = document(*store, "trace_mask/zarr.json");
  EXPECT_EQ(mask["data_type"], "bool");
  EXPECT_EQ(mask["fill_value"], false);
  EXPECT_EQ(mask["codecs"][1]["configuration"]["shuffle"], "bitshuffle");
  EXPECT_EQ(mask["dimension_names"], json({"inline", "crossline"}));
  const json headers = document(*store, "headers/zarr.json");
  EXPECT_EQ(headers["data_type"]["name"], "structured");
  EXPECT_THAT(headers["data_type"]["configuration"]["fields"].get<std::vector<json>>(),
              IsSupersetOf({json({"inline", "int32"}), json({"coordinate_scalar", "int16"}),
                            json({"delay_recording_time", "int16"})}));
  EXPECT_EQ(document(*store, "raw_headers/zarr.json")["data_type"]["configuration"]["length_bytes"],
            240);
  expect_file_header(document(*store, "segy_file_header/zarr.json")["attributes"]);
}

TEST(MdioDocuments, Version2IsConsolidated) {
  const auto store =
      write_store("memory://documents-v2", [](VolumeSpec& spec) { spec.zarr_format = 2; });
  expect_root(document(*store, ".zattrs"));
  const json amplitude = document(*store, "amplitude/.zarray");
  EXPECT_EQ(amplitude["dtype"], "<f4");
  EXPECT_EQ(amplitude["fill_value"], "NaN");
  EXPECT_EQ(amplitude["dimension_separator"], "/");
  EXPECT_EQ(amplitude["compressor"]["id"], "blosc");
  const json attributes = document(*store, "amplitude/.zattrs");
  EXPECT_EQ(attributes["_ARRAY_DIMENSIONS"], json({"inline", "crossline", "time"}));
  expect_statistics(attributes["statsV1"]);
  expect_file_header(document(*store, "segy_file_header/.zattrs"));
  EXPECT_THAT(document(*store, "headers/.zarray")["dtype"].get<std::vector<json>>(),
              IsSupersetOf({json({"inline", "<i4"}), json({"coordinate_scalar", "<i2"})}));
  EXPECT_EQ(document(*store, "raw_headers/.zarray")["dtype"], "|V240");
  // The consolidated document holds every other one, and none that is not there.
  const json all = document(*store, ".zmetadata");
  EXPECT_EQ(all["zarr_consolidated_format"], 1);
  std::set<std::string> keys;
  for (const auto& object : store->list("")) {
    const std::string name = object.key.substr(object.key.rfind('/') + 1);
    if (name == ".zarray" || name == ".zattrs" || name == ".zgroup") keys.insert(object.key);
  }
  for (const std::string& key : keys) EXPECT_EQ(all["metadata"][key], document(*store, key)) << key;
  EXPECT_EQ(all["metadata"].size(), keys.size());
}

TEST(MdioDocuments, ShardsSayWhereTheirIndexIs) {
  const auto store = write_store("memory://documents-shards", [](VolumeSpec& spec) {
    spec.shard_shape = {2, 3, 4};
  });
  const json amplitude = document(*store, "amplitude/zarr.json");
  EXPECT_EQ(amplitude["chunk_grid"]["configuration"]["chunk_shape"], json({2, 3, 4}));
  const json& codec = amplitude["codecs"][0];
  EXPECT_EQ(codec["name"], "sharding_indexed");
  EXPECT_EQ(codec["configuration"]["chunk_shape"], json({1, 3, 4}));
  EXPECT_EQ(codec["configuration"]["index_location"], "end");
  EXPECT_EQ(codec["configuration"]["index_codecs"][1]["name"], "crc32c");
  EXPECT_TRUE(store->head("amplitude/c/0/0/0").has_value());
  EXPECT_FALSE(store->head("amplitude/c/1/0/0").has_value());
}

TEST(MdioDocuments, LossySamplesNameTheirTolerance) {
  if (!zarr::zfp_is_available()) GTEST_SKIP() << "built without libzfp";
  for (const int format : {3, 2}) {
    const std::string uri = "memory://documents-zfp-" + std::to_string(format);
    const auto store = write_store(uri, [&](VolumeSpec& spec) {
      spec.zfp_tolerance = 0.25;
      spec.zarr_format = format;
    });
    if (format == 3) {
      EXPECT_EQ(document(*store, "amplitude/zarr.json")["codecs"], json::parse(R"([
          {"name":"numcodecs.zfpy","configuration":{"mode":4,"tolerance":0.25}}])"));
      EXPECT_EQ(document(*store, "amplitude/zarr.json")["fill_value"], 0.0);
    } else {
      const json compressor = document(*store, "amplitude/.zarray")["compressor"];
      EXPECT_EQ(compressor["id"], "zfpy");
      EXPECT_EQ(compressor["tolerance"], 0.25);
    }
    EXPECT_EQ(open_volume(uri)->info().codec, "zfp");
  }
}

}  // namespace
}  // namespace craton::volume
