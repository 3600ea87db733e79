#include "craton/volume/zarr/metadata.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "craton/base/base64.h"
#include "craton/base/error.h"

namespace craton::volume::zarr {
namespace {

using nlohmann::json;

json v3_document() {
  return json::parse(R"({"zarr_format":3,"node_type":"array","shape":[10,20],"data_type":"float32",
    "chunk_grid":{"name":"regular","configuration":{"chunk_shape":[5,6]}},
    "chunk_key_encoding":{"name":"default","configuration":{"separator":"/"}},
    "fill_value":"NaN","codecs":[{"name":"bytes","configuration":{"endian":"little"}}],
    "attributes":{"a":1},"dimension_names":["y",null]})");
}

json v2_document() {
  return json::parse(
      R"({"zarr_format":2,"shape":[10,20],"chunks":[5,6],"dtype":"<f4","compressor":null,"filters":null,
    "order":"C","fill_value":0.0})");
}

/// The message of the refusal, with `patch` merged into the document.
std::string refusal_v3(const char* patch, ErrorCode code) {
  json document = v3_document();
  document.merge_patch(json::parse(patch));
  try {
    parse_array_v3(document, "a/zarr.json");
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    EXPECT_NE(std::string(e.what()).find("a/zarr.json"), std::string::npos) << e.what();
    return e.what();
  }
  ADD_FAILURE() << patch << " was accepted";
  return "";
}

TEST(MetadataV3, ReadsWhatItSays) {
  const ArrayMetadata m = parse_array_v3(v3_document(), "zarr.json");
  EXPECT_EQ(m.shape, (std::vector<int64_t>{10, 20}));
  EXPECT_EQ(m.chunk_shape(), (std::vector<int64_t>{5, 6}));
  EXPECT_EQ(m.dimension_names, (std::vector<std::string>{"y", ""}));
  EXPECT_EQ(m.attributes["a"], 1);
  EXPECT_EQ(m.object_key(std::vector<int64_t>{1, 2}), "c/1/2");
  EXPECT_EQ(m.object_key({}), "c");
  const json again = to_json_v3(m);
  EXPECT_EQ(again["fill_value"], "NaN");
  EXPECT_EQ(parse_array_v3(again, "zarr.json").shape, m.shape);
}

TEST(MetadataV3, KeyEncodings) {
  const auto key = [](const char* encoding, std::vector<int64_t> index) {
    json document = v3_document();
    document["chunk_key_encoding"] = json::parse(encoding);
    return parse_array_v3(document, "zarr.json").object_key(index);
  };
  EXPECT_EQ(key(R"({"name":"default","configuration":{"separator":"."}})", {1, 2}), "c.1.2");
  EXPECT_EQ(key(R"({"name":"v2","configuration":{"separator":"."}})", {1, 2}), "1.2");
  EXPECT_EQ(key(R"({"name":"v2","configuration":{"separator":"/"}})", {1, 2}), "1/2");
  EXPECT_EQ(key(R"({"name":"v2"})", {}), "0");
  EXPECT_EQ(key(R"("default")", {1, 2}), "c/1/2");
}

TEST(MetadataV3, RefusesWithReason) {
  EXPECT_NE(refusal_v3(R"({"shape":[10,-1]})", ErrorCode::kCorrupt).find("shape"),
            std::string::npos);
  EXPECT_NE(refusal_v3(R"({"shape":[10,1.5]})", ErrorCode::kCorrupt).find("shape"),
            std::string::npos);
  refusal_v3(R"({"shape":[10]})", ErrorCode::kCorrupt);
  refusal_v3(R"({"shape":[4611686018427387903,4611686018427387903]})", ErrorCode::kCorrupt);
  refusal_v3(R"({"shape":[18446744073709551615,1]})", ErrorCode::kCorrupt);
  refusal_v3(R"({"chunk_grid":{"configuration":{"chunk_shape":[0,6]}}})", ErrorCode::kCorrupt);
  refusal_v3(R"({"chunk_grid":{"configuration":{"chunk_shape":[1000000,1000000]}}})",
             ErrorCode::kUnsupported);
  refusal_v3(R"({"chunk_grid":{"configuration":{"chunk_shape":[4611686018427387903,6]}}})",
             ErrorCode::kCorrupt);
  EXPECT_NE(refusal_v3(R"({"chunk_grid":{"name":"rectangular"}})", ErrorCode::kUnsupported)
                .find("rectangular"),
            std::string::npos);
  EXPECT_NE(refusal_v3(R"({"data_type":"complex64"})", ErrorCode::kUnsupported).find("complex64"),
            std::string::npos);
  EXPECT_NE(refusal_v3(R"({"data_type":{"name":"numpy.datetime64","configuration":{"unit":"s"}}})",
                       ErrorCode::kUnsupported)
                .find("datetime64"),
            std::string::npos);
  EXPECT_NE(refusal_v3(R"({"wings":2})", ErrorCode::kUnsupported).find("wings"), std::string::npos);
  refusal_v3(R"({"storage_transformers":[{"name":"x"}]})", ErrorCode::kUnsupported);
  refusal_v3(R"({"fill_value":"zero"})", ErrorCode::kCorrupt);
  refusal_v3(R"({"fill_value":[1]})", ErrorCode::kCorrupt);
  refusal_v3(R"({"codecs":null})", ErrorCode::kCorrupt);
  refusal_v3(R"({"codecs":[17]})", ErrorCode::kCorrupt);
  refusal_v3(R"({"chunk_key_encoding":{"name":"fanout"}})", ErrorCode::kUnsupported);
  refusal_v3(R"({"chunk_grid":17})", ErrorCode::kCorrupt);
  refusal_v3(R"({"node_type":"group"})", ErrorCode::kCorrupt);
  json document = v3_document();
  document["wings"] = {{"must_understand", false}};
  EXPECT_NO_THROW(parse_array_v3(document, "zarr.json"));
}

TEST(MetadataV2, ReadsWhatItSays) {
  json document = v2_document();
  const ArrayMetadata m =
      parse_array_v2(document, json::parse(R"({"_ARRAY_DIMENSIONS":["y","x"]})"), ".zarray");
  EXPECT_EQ(m.object_key(std::vector<int64_t>{1, 2}), "1.2");
  EXPECT_EQ(m.dimension_names, (std::vector<std::string>{"y", "x"}));
  document["dimension_separator"] = "/";
  document["order"] = "F";
  document["dtype"] = ">i2";
  const ArrayMetadata n = parse_array_v2(document, nullptr, ".zarray");
  EXPECT_EQ(n.object_key(std::vector<int64_t>{1, 2}), "1/2");
  EXPECT_TRUE(n.codecs.big_endian);
  EXPECT_EQ(n.codecs.transposes, (std::vector<std::vector<int>>{{1, 0}}));
  document["fill_value"] = nullptr;
  EXPECT_TRUE(parse_array_v2(document, nullptr, ".zarray").fill_is_null);
}

TEST(MetadataV2, RefusesWithReason) {
  const auto refusal = [](const char* patch) {
    json document = v2_document();
    document.merge_patch(json::parse(patch));
    try {
      parse_array_v2(document, nullptr, "x/.zarray");
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_NE(refusal(R"({"compressor":{"id":"lzma"}})").find("lzma"), std::string::npos);
  EXPECT_NE(refusal(R"({"filters":[{"id":"delta","dtype":"<f4"}]})").find("delta"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"dtype":"<c8"})").find("<c8"), std::string::npos);
  EXPECT_NE(refusal(R"({"dtype":"|O"})").find("|O"), std::string::npos);
  EXPECT_NE(refusal(R"({"dtype":"<f"})").find("dtype"), std::string::npos);
  EXPECT_NE(refusal(R"({"dtype":"|V99999999999"})"), "");
  EXPECT_NE(refusal(R"({"dimension_separator":"-"})").find("separator"), std::string::npos);
  EXPECT_NE(refusal(R"({"order":"K"})"), "");
  EXPECT_NE(refusal(R"({"compressor":{"level":1}})"), "");
  EXPECT_NE(refusal(R"({"chunks":[5]})"), "");
}

template <typename T>
T fill_of(const char* text, const DataType& type) {
  const auto bytes = parse_fill_value(json::parse(text), type);
  T value;
  EXPECT_EQ(bytes.size(), sizeof(T));
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

TEST(FillValues, OfEveryKind) {
  const DataType f4 = data_type_from_name("float32"), f8 = data_type_from_name("float64"),
                 f2 = data_type_from_name("float16");
  EXPECT_TRUE(std::isnan(fill_of<float>(R"("NaN")", f4)));
  EXPECT_EQ(fill_of<float>(R"("-Infinity")", f4), -INFINITY);
  EXPECT_EQ(fill_of<double>(R"("Infinity")", f8), INFINITY);
  EXPECT_EQ(fill_of<float>("1.5", f4), 1.5f);
  EXPECT_EQ(fill_of<uint32_t>(R"("0x7fc00001")", f4), 0x7fc00001u);
  EXPECT_EQ(fill_of<uint16_t>("1.5", f2), 0x3e00);
  EXPECT_EQ(fill_of<uint16_t>("65504", f2), 0x7bff);
  EXPECT_EQ(fill_of<uint16_t>("1e9", f2), 0x7c00);
  EXPECT_EQ(fill_of<uint16_t>("5.9604644775390625e-08", f2), 1);
  EXPECT_EQ(fill_of<int32_t>("2147483647", data_type_from_name("int32")), 2147483647);
  EXPECT_EQ(fill_of<int32_t>("-2147483648", data_type_from_name("int32")), -2147483647 - 1);
  EXPECT_EQ(fill_of<uint64_t>("18446744073709551615", data_type_from_name("uint64")), ~uint64_t{0});
  EXPECT_EQ(fill_of<int64_t>("-1", data_type_from_name("int64")), -1);
  EXPECT_EQ(fill_of<int16_t>("7.0", data_type_from_name("int16")), 7);
  EXPECT_EQ(fill_of<uint8_t>("true", data_type_from_name("bool")), 1);
  EXPECT_EQ(fill_of<float>("null", f4), 0.0f);
  EXPECT_EQ(parse_fill_value("AAEC", parse_data_type_v2("|V3")),
            (std::vector<std::byte>{std::byte{0}, std::byte{1}, std::byte{2}}));
  EXPECT_EQ(parse_fill_value(json::parse("[1,2]"), data_type_from_name("r16")),
            (std::vector<std::byte>{std::byte{1}, std::byte{2}}));
  for (const auto& [text, type] :
       std::vector<std::pair<const char*, const char*>>{{"128", "int8"},
                                                        {"-129", "int8"},
                                                        {"256", "uint8"},
                                                        {"-1", "uint8"},
                                                        {"1.5", "int32"},
                                                        {"2", "bool"},
                                                        {R"("0x12")", "float32"},
                                                        {R"("AA==")", "r16"}})
    EXPECT_THROW(parse_fill_value(json::parse(text), data_type_from_name(type)), Error)
        << text << " " << type;
}

TEST(FillValues, SurviveJson) {
  for (const auto& [text, name] :
       std::vector<std::pair<const char*, const char*>>{{R"("NaN")", "float32"},
                                                        {"-1.25", "float64"},
                                                        {"2147483647", "int32"},
                                                        {"-5", "int8"},
                                                        {"255", "uint8"},
                                                        {"false", "bool"},
                                                        {R"("AAEC")", "r24"}}) {
    const DataType type = data_type_from_name(name);
    EXPECT_EQ(fill_value_to_json(parse_fill_value(json::parse(text), type), type),
              json::parse(text))
        << name;
  }
}

TEST(DataTypes, StructsInEverySpelling) {
  const char* const spellings[] = {
      R"({"name":"structured","configuration":{"fields":[["inline","int32"],["scalar","int16"]]}})",
      R"({"name":"struct","configuration":{"fields":[{"name":"inline","data_type":"int32"},{"name":"scalar","data_type":"int16"}]}})",
      R"([["inline","int32"],["scalar","int16"]])"};
  const DataType v2 = parse_data_type_v2(json::parse(R"([["inline","<i4"],["scalar","<i2"]])"));
  for (const char* text : spellings) {
    const DataType type = parse_data_type_v3(json::parse(text));
    EXPECT_EQ(type.size, 6u);
    EXPECT_EQ(type, v2);
    EXPECT_EQ(parse_data_type_v3(to_json_v3(type)), type);
    EXPECT_EQ(parse_data_type_v2(to_json_v2(type)), type);
  }
  EXPECT_EQ(parse_data_type_v3(
                json::parse(R"({"name":"raw_bytes","configuration":{"length_bytes":240}})"))
                .size,
            240u);
  EXPECT_EQ(data_type_from_name("r1920").size, 240u);
  EXPECT_THROW(parse_data_type_v3(json::parse(R"([["a"]])")), Error);
  EXPECT_THROW(parse_data_type_v3(json::parse(R"([])")), Error);
}

TEST(DataTypes, StructsKeepTheByteOrderOfTheirFields) {
  json document = v2_document();
  document["dtype"] = json::parse(R"([["inline",">i4"],["code","|u1"],["scalar",">i2"]])");
  document["fill_value"] = "AAAABwkAAw==";  // 7, 9, 3 as stored
  const ArrayMetadata m = parse_array_v2(document, nullptr, "headers/.zarray");
  EXPECT_TRUE(m.codecs.big_endian);
  const Bytes little = decode_base64("BwAAAAkDAA==");
  EXPECT_EQ(m.fill, little);
  Bytes out(7);
  decode_chunk(m.codecs, decode_base64("AAAABwkAAw=="), std::vector<int64_t>{1}, m.type, m.fill,
               out);
  EXPECT_EQ(out, little);
  document["dtype"] = json::parse(R"([["inline",">i4"],["scalar","<i2"]])");
  try {
    parse_array_v2(document, nullptr, "headers/.zarray");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kUnsupported);
    EXPECT_NE(std::string(e.what()).find("differ in byte order"), std::string::npos) << e.what();
  }
}

TEST(DataTypes, ConvertToFloat) {
  const auto convert_one = [](auto value, const char* name) {
    float out;
    convert(std::as_bytes(std::span(&value, 1)), data_type_from_name(name),
            std::span<float>(&out, 1));
    return out;
  };
  EXPECT_EQ(convert_one(int16_t{-7}, "int16"), -7.0f);
  EXPECT_EQ(convert_one(uint32_t{4000000000u}, "uint32"), 4e9f);
  EXPECT_EQ(convert_one(2.5, "float64"), 2.5f);
  EXPECT_EQ(convert_one(uint16_t{0x3e00}, "float16"), 1.5f);
  EXPECT_EQ(convert_one(uint16_t{0x0001}, "float16"), std::ldexp(1.0f, -24));
  EXPECT_EQ(convert_one(uint16_t{0xfc00}, "float16"), -INFINITY);
  EXPECT_EQ(convert_one(uint16_t{0x3fc0}, "bfloat16"), 1.5f);
  EXPECT_EQ(convert_one(uint8_t{3}, "bool"), 1.0f);
}

TEST(Json, DamagedTextNamesTheKey) {
  const std::string text = "{\"zarr_format\": 3, ";
  try {
    parse_json(std::as_bytes(std::span(text)), "amplitude/zarr.json");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kCorrupt);
    EXPECT_NE(std::string(e.what()).find("amplitude/zarr.json"), std::string::npos);
  }
}

TEST(Json, BareNumbersOfPythonBecomeText) {
  const std::string text =
      R"({"mean": NaN, "range": [-Infinity,Infinity], "NaN \\\"NaN": "a NaN"})";
  const json document = parse_json(std::as_bytes(std::span(text)), ".zattrs");
  EXPECT_EQ(document["mean"], "NaN");
  EXPECT_EQ(document["range"], json({"-Infinity", "Infinity"}));
  EXPECT_EQ(document["NaN \\\"NaN"], "a NaN");
}

TEST(Json, DeepNestingIsRefused) {
  for (const size_t depth : {size_t{65}, size_t{1} << 20}) {
    for (const std::string& text :
         {std::string(depth, '['), std::string(depth, '[') + std::string(depth, ']')}) {
      try {
        parse_json(std::as_bytes(std::span(text)), "zarr.json");
        FAIL();
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::kCorrupt);
        EXPECT_NE(std::string(e.what()).find("nests deeper"), std::string::npos) << e.what();
      }
    }
  }
  const std::string fine = std::string(64, '[') + "\"[[[[\"" + std::string(64, ']');
  EXPECT_NO_THROW(parse_json(std::as_bytes(std::span(fine)), "zarr.json"));
}

}  // namespace
}  // namespace craton::volume::zarr
