#include "craton/volume/zarr/codec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>

#include "craton/base/error.h"
#include "craton/volume/zarr/shard.h"
#include "craton/volume/zarr/zfp.h"

namespace craton::volume::zarr {
namespace {

using nlohmann::json;

const DataType kFloat{Kind::kFloat, 4};

Bytes bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

Bytes ramp(size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), -5.0f);
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

ErrorCode code_of(const std::function<void()>& body, std::string* message = nullptr) {
  try {
    body();
  } catch (const Error& e) {
    if (message != nullptr) *message = e.what();
    return e.code();
  }
  return ErrorCode::kInternal;
}

TEST(Crc32c, CheckValue) { EXPECT_EQ(crc32c(bytes_of("123456789")), 0xE3069283u); }

/// Every codec that can stand behind "bytes", as v3 metadata spell it.
const char* const kBytesCodecs[] = {
    R"({"name":"blosc","configuration":{"cname":"zstd","clevel":5,"shuffle":"shuffle","typesize":4,"blocksize":0}})",
    R"({"name":"blosc","configuration":{"cname":"lz4","clevel":5,"shuffle":"bitshuffle","typesize":4,"blocksize":0}})",
    R"({"name":"blosc","configuration":{"cname":"lz4hc","clevel":9,"shuffle":"noshuffle","blocksize":256}})",
    R"({"name":"blosc","configuration":{"cname":"blosclz","clevel":1,"shuffle":"shuffle","typesize":4,"blocksize":0}})",
    R"({"name":"blosc","configuration":{"cname":"zlib","clevel":5,"shuffle":"shuffle","typesize":4,"blocksize":0}})",
    R"({"name":"blosc","configuration":{"cname":"snappy","clevel":5,"shuffle":"shuffle","typesize":4,"blocksize":0}})",
    R"({"name":"blosc","configuration":{"clevel":5}})",
    R"({"name":"zstd","configuration":{"level":0,"checksum":false}})",
    R"("zstd")",
    R"({"name":"gzip","configuration":{"level":6}})",
    R"({"name":"numcodecs.zlib","configuration":{"level":6}})",
    R"({"name":"numcodecs.bz2","configuration":{"level":9}})",
    R"({"name":"numcodecs.lz4","configuration":{"acceleration":1}})",
    R"({"name":"numcodecs.shuffle","configuration":{"elementsize":4}})",
    R"("crc32c")",
    R"({"name":"numcodecs.crc32"})",
    R"({"name":"numcodecs.adler32"})",
    R"({"name":"numcodecs.fletcher32"})",
};

class BytesCodecs : public ::testing::TestWithParam<const char*> {
 protected:
  CodecChain chain(std::span<const int64_t> shape) const {
    return parse_codecs_v3(json::array({"bytes", json::parse(GetParam())}), shape, kFloat);
  }
};
INSTANTIATE_TEST_SUITE_P(All, BytesCodecs, ::testing::ValuesIn(kBytesCodecs));

TEST_P(BytesCodecs, DecodesWhatItEncodes) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{7, 9, 11}, {1}, {64, 64}, {}}) {
    const Bytes elements = ramp(static_cast<size_t>(element_count(shape)));
    const CodecChain codecs = chain(shape);
    const Bytes encoded = encode_chunk(codecs, elements, shape, kFloat);
    Bytes back(elements.size());
    decode_chunk(codecs, encoded, shape, kFloat, {}, back);
    EXPECT_EQ(back, elements);
  }
}

TEST_P(BytesCodecs, JsonSurvives) {
  const std::vector<int64_t> shape{7, 9};
  const CodecChain codecs = chain(shape);
  const CodecChain again = parse_codecs_v3(codecs_to_json_v3(codecs, kFloat), shape, kFloat);
  const Bytes elements = ramp(63);
  Bytes back(elements.size());
  decode_chunk(again, encode_chunk(codecs, elements, shape, kFloat), shape, kFloat, {}, back);
  EXPECT_EQ(back, elements);
}

TEST_P(BytesCodecs, CutBytesAreAnError) {
  const std::vector<int64_t> shape{40, 50};
  const CodecChain codecs = chain(shape);
  const Bytes encoded = encode_chunk(codecs, ramp(2000), shape, kFloat);
  Bytes out(8000);
  for (const size_t length : {size_t{0}, size_t{1}, size_t{3}, size_t{4}, size_t{15}, size_t{16},
                              size_t{20}, encoded.size() / 2, encoded.size() - 1}) {
    const Bytes cut(encoded.begin(),
                    encoded.begin() + static_cast<ptrdiff_t>(std::min(length, encoded.size() - 1)));
    EXPECT_EQ(code_of([&] { decode_chunk(codecs, cut, shape, kFloat, {}, out); }),
              ErrorCode::kCorrupt)
        << length;
  }
}

TEST_P(BytesCodecs, AnotherSizeIsAnError) {
  const std::vector<int64_t> small{39, 50}, shape{40, 50}, large{41, 50};
  const CodecChain codecs = chain(shape);
  Bytes out(8000);
  for (const auto& other : {small, large}) {
    const Bytes encoded =
        encode_chunk(codecs, ramp(static_cast<size_t>(element_count(other))), other, kFloat);
    EXPECT_EQ(code_of([&] { decode_chunk(codecs, encoded, shape, kFloat, {}, out); }),
              ErrorCode::kCorrupt);
  }
}

TEST_P(BytesCodecs, FlippedBytesNeverLeaveTheBuffer) {
  const std::vector<int64_t> shape{16, 16};
  const CodecChain codecs = chain(shape);
  const Bytes encoded = encode_chunk(codecs, ramp(256), shape, kFloat);
  Bytes out(1024);
  for (size_t i = 0; i < std::min<size_t>(encoded.size(), 200); ++i)
    for (const int mask : {0x01, 0x80, 0xff}) {
      Bytes bad = encoded;
      bad[i] ^= static_cast<std::byte>(mask);
      try {
        decode_chunk(codecs, bad, shape, kFloat, {}, out);
      } catch (const Error&) {
      }
    }
}

TEST(Blosc, HeadersThatLieAreRefusedBeforeDecoding) {
  const std::vector<int64_t> shape{64};
  const CodecChain chain = parse_codecs_v3(
      json::parse(R"(["bytes", {"name":"blosc","configuration":{"cname":"lz4"}}])"), shape, kFloat);
  const Bytes good = encode_chunk(chain, ramp(64), shape, kFloat);
  Bytes out(256);
  const auto message_with = [&](size_t at, uint32_t value) {
    Bytes bad = good;
    std::memcpy(bad.data() + at, &value, 4);
    std::string message;
    EXPECT_EQ(code_of([&] { decode_chunk(chain, bad, shape, kFloat, {}, out); }, &message),
              ErrorCode::kCorrupt);
    return message;
  };
  EXPECT_NE(message_with(4, 0x7fffffff).find("at most 256"), std::string::npos);       // nbytes
  EXPECT_NE(message_with(12, 0xffffffff).find("the header says"), std::string::npos);  // cbytes
  EXPECT_NE(message_with(12, 16).find("the header says"), std::string::npos);
  EXPECT_NE(message_with(8, 0).find("block size"), std::string::npos);
  EXPECT_NE(message_with(8, 0x10000).find("block size"), std::string::npos);
  EXPECT_NE(message_with(4, 252).find("252 bytes"), std::string::npos) << message_with(4, 252);
}

TEST(Fletcher32, SumsAreFoldedAsInHdf5) {
  const std::vector<int64_t> shape{2};
  const CodecChain chain =
      parse_codecs_v3(json::parse(R"(["bytes", "numcodecs.fletcher32"])"), shape, kFloat);
  Bytes out(8);
  // Sums that are multiples of 65535: 0xffff each, and not 0.
  decode_chunk(chain, Bytes(12, std::byte{0xff}), shape, kFloat, {}, out);
  EXPECT_EQ(out, Bytes(8, std::byte{0xff}));
  decode_chunk(chain, Bytes(12), shape, kFloat, {}, out);
  EXPECT_EQ(out, Bytes(8));
  // 0x6162 + 0x6364 + 0x6566 + 0x6768 and its running sum, little-endian.
  const Bytes encoded = encode_chunk(chain, bytes_of("abcdefgh"), shape, kFloat);
  const Bytes tail(encoded.end() - 4, encoded.end());
  EXPECT_EQ(tail, (Bytes{std::byte{0x95}, std::byte{0x91}, std::byte{0xeb}, std::byte{0xe1}}));
}

TEST(Gzip, SeveralMembersAreOneStream) {
  const std::vector<int64_t> shape{200};
  const CodecChain chain = parse_codecs_v3(json::parse(R"(["bytes", "gzip"])"), shape, kFloat);
  const Bytes elements = ramp(200);
  const std::span<const std::byte> all(elements);
  Bytes encoded = encode_bytes(chain.bytes_codecs[0], all.first(300), 4);
  const Bytes second = encode_bytes(chain.bytes_codecs[0], all.subspan(300), 4);
  encoded.insert(encoded.end(), second.begin(), second.end());
  Bytes back(800);
  decode_chunk(chain, encoded, shape, kFloat, {}, back);
  EXPECT_EQ(back, elements);
}

TEST(Chain, SeveralCodecsInARow) {
  const std::vector<int64_t> shape{5, 6, 7};
  const CodecChain chain = parse_codecs_v3(
      json::parse(
          R"([{"name":"transpose","configuration":{"order":[2,0,1]}}, {"name":"transpose","configuration":{"order":[1,0,2]}},
                      {"name":"bytes","configuration":{"endian":"big"}}, "zstd", "gzip", "crc32c"])"),
      shape, kFloat);
  const Bytes elements = ramp(210);
  const Bytes encoded = encode_chunk(chain, elements, shape, kFloat);
  Bytes back(840);
  decode_chunk(chain, encoded, shape, kFloat, {}, back);
  EXPECT_EQ(back, elements);
}

TEST(Transpose, EncodedAxisIsTheNamedInputAxis) {
  const std::vector<int64_t> shape{2, 3};
  const DataType byte{Kind::kUint, 1};
  const CodecChain chain = parse_codecs_v3(
      json::parse(R"([{"name":"transpose","configuration":{"order":[1,0]}}, "bytes"])"), shape,
      byte);
  EXPECT_EQ(encode_chunk(chain, bytes_of("abcdef"), shape, byte), bytes_of("adbecf"));
  // Three axes: encoded[i, j, k] with sizes (shape[2], shape[0], shape[1]).
  const std::vector<int64_t> deep{1, 2, 3};
  const CodecChain turned = parse_codecs_v3(
      json::parse(R"([{"name":"transpose","configuration":{"order":[2,0,1]}}, "bytes"])"), deep,
      byte);
  EXPECT_EQ(encode_chunk(turned, bytes_of("abcdef"), deep, byte), bytes_of("adbecf"));
}

TEST(Zfp, HoldsItsTolerance) {
  if (!zfp_is_available()) GTEST_SKIP() << "built without libzfp";
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{20}, {8, 9}, {5, 6, 7}, {3, 4, 5, 6}, {1, 3, 1, 4, 5, 6}}) {
    const auto count = static_cast<size_t>(element_count(shape));
    std::vector<float> values(count), back(count);
    for (size_t i = 0; i < count; ++i) values[i] = std::sin(0.37f * static_cast<float>(i)) * 100.0f;
    const Bytes encoded = zfp_encode(std::as_bytes(std::span(values)), shape, kFloat, 0.5);
    zfp_decode(encoded, shape, kFloat, std::as_writable_bytes(std::span(back)));
    for (size_t i = 0; i < count; ++i) ASSERT_NEAR(back[i], values[i], 0.5) << i;
    const Bytes coarse = zfp_encode(std::as_bytes(std::span(values)), shape, kFloat, 50.0);
    EXPECT_LT(coarse.size(), encoded.size());
  }
}

TEST(Zfp, HostileStreamsStayInside) {
  if (!zfp_is_available()) GTEST_SKIP() << "built without libzfp";
  const std::vector<int64_t> shape{8, 8};
  const Bytes good = zfp_encode(ramp(64), shape, kFloat, 1e-3);
  Bytes out(256);
  for (size_t length = 0; length < good.size(); ++length) {
    Bytes bad(good.begin(), good.begin() + static_cast<ptrdiff_t>(length));
    try {
      zfp_decode(bad, shape, kFloat, out);
    } catch (const Error&) {
    }
    bad = good;
    bad[length] ^= std::byte{0xff};
    try {
      zfp_decode(bad, shape, kFloat, out);
    } catch (const Error&) {
    }
  }
  const std::vector<int64_t> other{8, 16};
  Bytes wide(512);
  EXPECT_EQ(code_of([&] { zfp_decode(good, other, kFloat, wide); }), ErrorCode::kCorrupt);
  EXPECT_EQ(code_of([&] { zfp_decode({}, shape, kFloat, out); }), ErrorCode::kCorrupt);
}

TEST(Shard, IndexAtEitherEndAndBadIndexes) {
  const std::vector<int64_t> shape{4, 6};
  for (const char* location : {"start", "end"}) {
    const json codecs = json::array({{{"name", "sharding_indexed"},
                                      {"configuration",
                                       {{"chunk_shape", {2, 3}},
                                        {"codecs", {"bytes", "zstd"}},
                                        {"index_codecs", {"bytes", "crc32c"}},
                                        {"index_location", location}}}}});
    const CodecChain chain = parse_codecs_v3(codecs, shape, kFloat);
    const Sharding& sharding = *chain.sharding;
    std::vector<std::optional<Bytes>> inner(4);
    const std::vector<int64_t> inner_shape{2, 3};
    for (const size_t i : {0u, 1u, 3u})
      inner[i] = encode_chunk(sharding.inner, Bytes(24, static_cast<std::byte>(i + 1)), inner_shape,
                              kFloat);
    const Bytes shard = encode_shard(sharding, inner, shape);
    const Bytes fill(4, std::byte{9});
    Bytes out(96);
    decode_chunk(chain, shard, shape, kFloat, fill, out);
    EXPECT_EQ(out[0], std::byte{1});
    EXPECT_EQ(out[4 * 3], std::byte{2});
    EXPECT_EQ(out[4 * 12], std::byte{9});  // row 2, column 0: the absent one
    EXPECT_EQ(out[4 * 15], std::byte{4});
    Bytes bad = shard;
    const size_t index_at = sharding.index_at_start ? 0 : shard.size() - 68;
    bad[index_at] ^= std::byte{1};
    EXPECT_EQ(code_of([&] { decode_chunk(chain, bad, shape, kFloat, fill, out); }),
              ErrorCode::kCorrupt);
    EXPECT_EQ(
        code_of([&] { decode_chunk(chain, std::span(shard).first(67), shape, kFloat, fill, out); }),
        ErrorCode::kCorrupt);
    // Entries with a right checksum that point outside.
    for (const uint64_t offset : {uint64_t{5000}, ~uint64_t{0} - 2}) {
      std::vector<uint64_t> entries(8, ShardIndex::kAbsent);
      entries[0] = offset;
      entries[1] = 10;
      const std::vector<int64_t> index_shape{2, 2, 2};
      const Bytes index = encode_chunk(sharding.index, std::as_bytes(std::span(entries)),
                                       index_shape, {Kind::kUint, 8});
      bad = shard;
      std::ranges::copy(index, bad.begin() + static_cast<ptrdiff_t>(index_at));
      EXPECT_EQ(code_of([&] { decode_chunk(chain, bad, shape, kFloat, fill, out); }),
                ErrorCode::kCorrupt);
    }
  }
}

TEST(Codecs, RefusedByName) {
  const std::vector<int64_t> shape{4};
  const auto message = [&](const char* text) {
    std::string what;
    code_of([&] { parse_codecs_v3(json::parse(text), shape, kFloat); }, &what);
    return what;
  };
  EXPECT_NE(message(R"(["bytes", "numcodecs.pcodec"])").find("numcodecs.pcodec"),
            std::string::npos);
  EXPECT_NE(message(R"(["vlen-utf8"])").find("vlen-utf8"), std::string::npos);
  EXPECT_NE(message(R"(["zstd", "bytes"])").find("out of order"), std::string::npos);
  EXPECT_NE(message(R"(["bytes", "bytes"])").find("out of order"), std::string::npos);
  EXPECT_NE(message(R"([])").find("expected a list"), std::string::npos);
  EXPECT_NE(
      message(R"([{"name":"transpose","configuration":{"order":[0]}}])").find("no array to bytes"),
      std::string::npos);
  EXPECT_NE(message(R"([{"name":"transpose","configuration":{"order":[1]}}, "bytes"])")
                .find("permutation"),
            std::string::npos);
  EXPECT_NE(
      message(R"([{"name":"transpose","configuration":{"order":[0,1]}}, "bytes"])").find("axes"),
      std::string::npos);
  EXPECT_NE(message(R"(["bytes", {"name":"blosc","configuration":{"cname":"lzma"}}])").find("lzma"),
            std::string::npos);
  EXPECT_NE(
      message(
          R"([{"name":"sharding_indexed","configuration":{"chunk_shape":[3],"codecs":["bytes"]}}])")
          .find("does not divide"),
      std::string::npos);
  EXPECT_NE(
      message(
          R"([{"name":"sharding_indexed","configuration":{"chunk_shape":[0],"codecs":["bytes"]}}])")
          .find("does not divide"),
      std::string::npos);
  EXPECT_NE(
      message(
          R"([{"name":"sharding_indexed","configuration":{"chunk_shape":[2],"codecs":["bytes"],"index_codecs":["bytes","zstd"]}}])")
          .find("index_codecs"),
      std::string::npos);
}

TEST(CopyBox, EveryBoxOfASmallArray) {
  const std::vector<int64_t> source_shape{3, 4, 5}, target_shape{4, 6, 5};
  Bytes source(60);
  for (size_t i = 0; i < 60; ++i) source[i] = static_cast<std::byte>(i + 1);
  for (int64_t a = 0; a < 3; ++a)
    for (int64_t b = 0; b < 4; ++b)
      for (int64_t c = 0; c < 5; ++c) {
        const std::vector<int64_t> from{a, b, c}, extent{3 - a, 4 - b, 5 - c}, to{1, 2, 0};
        Bytes target(120);
        copy_box(source.data(), source_shape, from, target.data(), target_shape, to, extent, 1);
        size_t wrong = 0;
        for (int64_t i = 0; i < 4; ++i)
          for (int64_t j = 0; j < 6; ++j)
            for (int64_t k = 0; k < 5; ++k) {
              const int64_t x = i - 1, y = j - 2;
              const bool in = x >= 0 && x < extent[0] && y >= 0 && y < extent[1] && k < extent[2];
              const auto expected =
                  in ? static_cast<std::byte>(((x + a) * 4 + y + b) * 5 + k + c + 1) : std::byte{0};
              wrong += target[static_cast<size_t>((i * 6 + j) * 5 + k)] != expected;
            }
        EXPECT_EQ(wrong, 0u);
      }
}

}  // namespace
}  // namespace craton::volume::zarr
