#include "craton/checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>

#include "craton/base/error.h"

namespace craton::checkpoint {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class Safetensors : public ::testing::Test {
 protected:
  fs::path path() const { return folder_.path() / "x.safetensors"; }

  /// A file with this header and so many data bytes.
  std::string refused(const std::string& header, size_t data_bytes = 0) {
    std::string bytes(8, '\0');
    const uint64_t length = header.size();
    std::memcpy(bytes.data(), &length, 8);
    return refused_bytes(bytes + header + std::string(data_bytes, 'x'));
  }

  std::string refused_bytes(const std::string& bytes) {
    std::ofstream(path(), std::ios::binary) << bytes;
    try {
      const SafetensorsReader reader(path());
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  }

  runtime::TemporaryDirectory folder_;
};

TEST_F(Safetensors, WritesInPiecesAndReadsByRange) {
  const std::vector<float> a = {1, 2, 3, 4, 5, 6};
  const std::vector<uint8_t> b = {7, 8, 9};
  const std::vector<int64_t> c = {-1};
  SafetensorsWriter writer(
      path(), {{"b", "U8", {3}}, {"a", "F32", {2, 3}}, {"c", "I64", {}}, {"e", "F32", {0}}},
      {{"format", "pt"}});
  const auto bytes = std::as_bytes(std::span(a));
  writer.write("a", 8, bytes.subspan(8));
  writer.write("b", 0, std::as_bytes(std::span(b)));
  writer.write("c", 0, std::as_bytes(std::span(c)));
  writer.write("a", 0, bytes.subspan(0, 8));
  writer.finish();
  EXPECT_EQ(fs::file_size(path()), writer.file_bytes());

  const SafetensorsReader reader(path());
  EXPECT_EQ(reader.metadata().at("format"), "pt");
  ASSERT_EQ(reader.tensors().size(), 4u);
  EXPECT_EQ(reader.tensors()[0].name, "c") << "wide elements come first";
  for (const TensorInfo& tensor : reader.tensors())
    EXPECT_EQ(tensor.offset % dtype_bytes(tensor.dtype), 0u);
  std::vector<float> got(6);
  reader.read(*reader.find("a"), 0, std::as_writable_bytes(std::span(got)));
  EXPECT_EQ(got, a);
  std::byte one[1];
  reader.read(*reader.find("b"), 2, one);
  EXPECT_EQ(std::to_integer<int>(one[0]), 9);
  EXPECT_THROW(reader.read(*reader.find("b"), 3, one), Error);
  EXPECT_EQ(reader.find("d"), nullptr);
}

TEST_F(Safetensors, UnfinishedFilesVanish) {
  const float one = 1;
  {
    SafetensorsWriter writer(path(), {{"a", "F32", {2}}});
    writer.write("a", 0, std::as_bytes(std::span(&one, 1)));
    EXPECT_THROW(writer.finish(), Error);
    EXPECT_THROW(writer.write("a", 8, std::as_bytes(std::span(&one, 1))), Error);
    EXPECT_THROW(writer.write("b", 0, {}), Error);
  }
  EXPECT_FALSE(fs::exists(path()));
  EXPECT_THROW(SafetensorsWriter(path(), {{"a", "F32", {2}}, {"a", "F32", {2}}}), Error);
  EXPECT_THROW(SafetensorsWriter(path(), {{"a", "F31", {2}}}), Error);
  EXPECT_THROW(SafetensorsWriter(path(), {{"\xff", "F32", {2}}}), Error);
  EXPECT_THROW(SafetensorsWriter(folder_.path() / "no/folder", {}), Error);
}

TEST_F(Safetensors, HostileHeadersAreRefused) {
  EXPECT_EQ(refused("{}"), "no error");
  EXPECT_EQ(refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}   ", 4),
            "no error");
  EXPECT_THAT(refused_bytes(""), HasSubstr("0 bytes long"));
  EXPECT_THAT(refused_bytes("short"), HasSubstr("5 bytes long"));
  EXPECT_THAT(refused_bytes(std::string(8, '\xff') + "{}"),
              HasSubstr("its header would have 18446744073709551615"));
  EXPECT_THAT(refused_bytes(std::string("\x03\0\0\0\0\0\0\0{}", 10)),
              HasSubstr("its header would have 3 of 10 bytes"));
  EXPECT_THAT(refused(" {}"), HasSubstr("does not start with"));
  EXPECT_THAT(refused("{\"a\":"), HasSubstr("not JSON"));
  EXPECT_THAT(refused("{}x"), HasSubstr("not JSON"));
  EXPECT_THAT(refused("{\"a\":1}"), HasSubstr("a number where none may be"));
  EXPECT_THAT(refused("{\"a\":[]}"), HasSubstr("a list where none may be"));
  EXPECT_THAT(refused("{\"a\":{}}"), HasSubstr("lacks dtype"));
  EXPECT_THAT(refused("{\"__metadata__\":{\"a\":{}}}"), HasSubstr("an object where none may be"));
  EXPECT_THAT(refused("{\"__metadata__\":{\"a\":3}}"), HasSubstr("a number where none may be"));
  const auto tensor = [](const std::string& dtype, const std::string& shape,
                         const std::string& offsets) {
    return "{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
  };
  const auto one = [&](const std::string& dtype, const std::string& shape,
                       const std::string& offsets, size_t data) {
    return refused("{\"a\":" + tensor(dtype, shape, offsets) + "}", data);
  };
  EXPECT_THAT(one("F33", "[1]", "[0,4]", 4), HasSubstr("unknown type 'F33'"));
  EXPECT_THAT(one("F32", "[2]", "[0,4]", 4), HasSubstr("'a' of 2 x F32 has 4 bytes"));
  EXPECT_THAT(one("F32", "[-1]", "[0,4]", 4), HasSubstr("a negative number"));
  EXPECT_THAT(one("F32", "[1.0]", "[0,4]", 4), HasSubstr("a fraction"));
  EXPECT_THAT(one("F32", "[1]", "[4,0]", 4), HasSubstr("no valid data_offsets"));
  EXPECT_THAT(one("F32", "[1]", "[0,4,8]", 4), HasSubstr("no valid data_offsets"));
  EXPECT_THAT(one("F32", "[4294967296,4294967296]", "[0,4]", 4),
              HasSubstr("more elements than can be"));
  EXPECT_THAT(one("F32", "[4611686018427387904]", "[0,0]", 0), HasSubstr("has 0 bytes"));
  EXPECT_THAT(one("F32", "[0,18446744073709551615]", "[0,0]", 0), HasSubstr("too large a number"));
  EXPECT_THAT(one("F32", "[1]", "[4,8]", 8),
              HasSubstr("starts at byte 4 of the data, where 0 was expected"));
  EXPECT_THAT(one("F32", "[1]", "[0,4]", 5), HasSubstr("its tensors have 4 bytes, 5 follow"));
  EXPECT_THAT(one("F32", "[1]", "[0,4]", 3), HasSubstr("its tensors have 4 bytes, 3 follow"));
  EXPECT_THAT(one("F32", "[[1]]", "[0,4]", 4), HasSubstr("a list where none may be"));
  EXPECT_THAT(refused("{\"a\":" + tensor("F32", "[1]", "[0,4]") +
                          ",\"b\":" + tensor("F32", "[1]", "[0,4]") + "}",
                      8),
              HasSubstr("starts at byte 0 of the data, where 4 was expected"));
  EXPECT_THAT(refused("{\"a\":" + tensor("F32", "[0]", "[0,0]") +
                      ",\"a\":" + tensor("F32", "[0]", "[0,0]") + "}"),
              HasSubstr("'a' is given twice"));
  EXPECT_THAT(refused("{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}"), HasSubstr("'dtype' twice"));
  EXPECT_THAT(refused("{\"a\":{\"kind\":1}}"), HasSubstr("unknown field 'kind'"));
  std::string axes = "[1";
  for (int i = 0; i < 1000; ++i) axes += ",1";
  EXPECT_THAT(one("F32", axes + "]", "[0,4]", 4), HasSubstr("more than 64 numbers"));
  EXPECT_THAT(refused("{\"a\":" + std::string(100000, '[') + "}"),
              HasSubstr("a list where none may be"));
}

// Reads the file with nothing but Python's standard library, as the format's description says.
TEST_F(Safetensors, PythonReadsTheHeaderByHand) {
  if (std::system("python3 -c 1") != 0) GTEST_SKIP() << "no python3";
  const std::vector<float> a = {1.5f, -2.25f};
  const std::vector<int32_t> b = {7, 8, 9};
  SafetensorsWriter writer(path(), {{"layer.0.weight", "F32", {1, 2}}, {"ids", "I32", {3}}},
                           {{"format", "pt"}});
  writer.write("layer.0.weight", 0, std::as_bytes(std::span(a)));
  writer.write("ids", 0, std::as_bytes(std::span(b)));
  writer.finish();
  const std::string script = R"(
import json, struct, sys
data = open(sys.argv[1], 'rb').read()
n = struct.unpack('<Q', data[:8])[0]
assert n % 8 == 0, n
head = json.loads(data[8:8 + n])
body = data[8 + n:]
assert head.pop('__metadata__') == {'format': 'pt'}
assert set(head) == {'layer.0.weight', 'ids'}, head
w = head['layer.0.weight']
assert w['dtype'] == 'F32' and w['shape'] == [1, 2], w
assert struct.unpack('<2f', body[slice(*w['data_offsets'])]) == (1.5, -2.25)
assert struct.unpack('<3i', body[slice(*head['ids']['data_offsets'])]) == (7, 8, 9)
spans = sorted(t['data_offsets'] for t in head.values())
assert spans[0][0] == 0 and spans[-1][1] == len(body) and spans[0][1] == spans[1][0], spans
)";
  std::ofstream(folder_.path() / "read.py") << script;
  EXPECT_EQ(
      std::system(
          ("python3 " + (folder_.path() / "read.py").string() + " " + path().string()).c_str()),
      0);
}

}  // namespace
}  // namespace craton::checkpoint
