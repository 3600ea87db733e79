#include "craton/tokens/token_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <numeric>

#include "craton/base/error.h"
#include "craton/base/philox.h"
#include "craton/tokens/token_fixture.h"

namespace craton::tokens {
namespace {

using fixture::FileBuilder;
using fixture::fresh_uri;
using fixture::llm_c;
using fixture::megatron_index;
using ::testing::HasSubstr;

/// Puts files into a fresh folder and opens one of them.
class TokenFiles : public ::testing::Test {
 protected:
  void put(const std::string& name, const FileBuilder& file) {
    store::open_store(uri_)->put(name, file.bytes());
  }
  std::vector<TokenFile> open(const std::string& name, const std::string& type = "") {
    return open_token_files(store::join_uri(uri_, name), {type, {}});
  }
  std::string error(const std::string& name, ErrorCode code, const std::string& type = "") {
    try {
      open(name, type);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), code) << e.what();
      return e.what();
    }
    return "no error";
  }
  std::vector<int64_t> read(const TokenFile& file, int64_t first, int64_t count) {
    const uint64_t width = bytes_of(file.type);
    const auto bytes =
        file.store->get_range(file.key, file.first_byte + static_cast<uint64_t>(first) * width,
                              static_cast<uint64_t>(count) * width);
    std::vector<int64_t> out(static_cast<size_t>(count));
    decode_tokens(file, *bytes, first, 0, out);
    return out;
  }
  std::string uri_ = fresh_uri();
};

std::vector<int64_t> counting(int64_t first, int64_t count) {
  std::vector<int64_t> out(static_cast<size_t>(count));
  std::iota(out.begin(), out.end(), first);
  return out;
}

TEST_F(TokenFiles, HeadersOfLlmC) {
  put("gpt2.bin", llm_c(1000));
  put("llama3.bin", llm_c(70000, 20240801, 7));
  const TokenFile gpt2 = open("gpt2.bin").at(0), llama3 = open("llama3.bin").at(0);
  EXPECT_EQ(gpt2.type, TokenType::kUint16);
  EXPECT_EQ(gpt2.count, 1000);
  EXPECT_EQ(read(gpt2, 990, 10), counting(990, 10));
  EXPECT_EQ(llama3.type, TokenType::kUint32);
  EXPECT_EQ(read(llama3, 69990, 10), counting(69990, 10));  // beyond 16 bits
}

TEST_F(TokenFiles, RawNumbersNeedTheirType) {
  put("train.bin", FileBuilder().tokens<uint16_t>(500, 65036));
  EXPECT_THAT(error("train.bin", ErrorCode::kInvalidArgument), HasSubstr("type: uint16"));
  const TokenFile file = open("train.bin", "uint16").at(0);
  EXPECT_EQ(file.count, 500);
  EXPECT_EQ(read(file, 400, 100), counting(65436, 100));
  EXPECT_THAT(error("train.bin", ErrorCode::kInvalidArgument, "float32"), HasSubstr("float32"));
  put("odd.bin", FileBuilder().tokens<uint16_t>(5).text("x"));
  EXPECT_THAT(error("odd.bin", ErrorCode::kCorrupt, "uint16"), HasSubstr("11 bytes"));
}

TEST_F(TokenFiles, MegatronPairsByFilePrefixAndIndex) {
  put("text_document.bin", FileBuilder().tokens<uint16_t>(60));
  put("text_document.idx", megatron_index({10, 20, 0, 30}, 8, 2));
  put("wide.bin", FileBuilder().tokens<int32_t>(7, 1 << 20));
  put("wide.idx", megatron_index({7}, 4, 4));
  for (const char* name : {"text_document.bin", "text_document", "text_document.idx"}) {
    const TokenFile file = open(name).at(0);
    EXPECT_EQ(file.format, "Megatron");
    EXPECT_EQ(file.count, 60);
    EXPECT_EQ(file.documents, 4);
    EXPECT_EQ(read(file, 0, 60), counting(0, 60));
  }
  EXPECT_EQ(read(open("wide").at(0), 0, 7), counting(1 << 20, 7));
}

TEST_F(TokenFiles, PatternsTakeAllThatMatchInOrder) {
  for (const char* name : {"fineweb_train_000010.bin", "fineweb_train_000002.bin",
                           "fineweb_val_000000.bin", "readme.md"})
    put(name, llm_c(100));
  const auto files = open("fineweb_train_*.bin");
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[0].key, "fineweb_train_000002.bin");
  EXPECT_EQ(files[1].key, "fineweb_train_000010.bin");
  EXPECT_THAT(error("nothing_*.bin", ErrorCode::kNotFound), HasSubstr("nothing_*.bin"));
  EXPECT_THAT(error("", ErrorCode::kInvalidArgument), HasSubstr("names a folder"));
  EXPECT_THAT(error("absent.bin", ErrorCode::kNotFound), HasSubstr("absent.bin"));
}

TEST_F(TokenFiles, WhatContradictsItselfIsRefused) {
  auto cut = llm_c(1000);
  cut.bytes().resize(cut.bytes().size() - 2);
  put("cut.bin", cut);
  EXPECT_THAT(error("cut.bin", ErrorCode::kCorrupt), HasSubstr("1000 tokens"));
  put("negative.bin", llm_c(-5));
  EXPECT_THAT(error("negative.bin", ErrorCode::kCorrupt), HasSubstr("-5 tokens"));
  put("version.bin", llm_c(10, 20240520, 2));
  EXPECT_THAT(error("version.bin", ErrorCode::kUnsupported), HasSubstr("version 2"));
  put("eval.bin", llm_c(10, 20240522));
  EXPECT_THAT(error("eval.bin", ErrorCode::kUnsupported), HasSubstr("evaluation"));
  put("array.bin", FileBuilder().text("\x93NUMPY\x01").tokens<uint16_t>(50));
  EXPECT_THAT(error("array.bin", ErrorCode::kUnsupported, "uint16"), HasSubstr("NumPy"));
  put("empty.bin", FileBuilder());
  EXPECT_THAT(error("empty.bin", ErrorCode::kInvalidArgument, "uint16"), HasSubstr("0 tokens"));

  put("pair.bin", FileBuilder().tokens<uint16_t>(59));
  put("pair.idx", megatron_index({10, 20, 30}, 8, 2));
  EXPECT_THAT(error("pair", ErrorCode::kCorrupt), HasSubstr("describes 120"));
  put("kind.bin", FileBuilder().tokens<uint32_t>(60));
  put("kind.idx", megatron_index({60}, 7, 4));
  EXPECT_THAT(error("kind", ErrorCode::kUnsupported), HasSubstr("type code 7"));
  put("other.bin", FileBuilder().tokens<uint16_t>(60));
  put("other.idx", FileBuilder().text(std::string(100, 'x')));
  EXPECT_THAT(error("other", ErrorCode::kCorrupt), HasSubstr("no Megatron index"));
}

/// Whatever an index says, it costs a bounded read and ends in a file whose tokens can be read, or
/// in an error.
TEST_F(TokenFiles, DamagedIndexesNeverLeadOutOfTheFile) {
  put("t.bin", FileBuilder().tokens<uint16_t>(60));
  const store::Bytes whole = megatron_index({10, 20, 30}, 8, 2).bytes();
  const Philox random(3, RandomPurpose::kTest);
  int opened = 0;
  for (uint64_t n = 0; n < 3000; ++n) {
    FileBuilder damaged;
    damaged.bytes() = whole;
    for (uint64_t k = 0; k <= n % 3; ++k)
      damaged.bytes()[random.below(8 * n + 2 * k, whole.size())] =
          static_cast<std::byte>(random.bits(8 * n + 2 * k + 1));
    if (n % 5 == 0) damaged.bytes().resize(random.below(8 * n + 7, whole.size()));
    put("t.idx", damaged);
    try {
      const TokenFile file = open("t.bin").at(0);
      ASSERT_EQ(file.data_bytes(), 120u);
      ++opened;
    } catch (const Error&) {
    }
  }
  EXPECT_GT(opened, 100);  // some bytes do not matter
  EXPECT_LT(opened, 2000);
}

TEST_F(TokenFiles, TokensOutsideTheVocabularyAreNamed) {
  put("t.bin", FileBuilder().tokens<int32_t>(100, -3));
  const TokenFile file = open("t.bin", "int32").at(0);
  const auto bytes = *file.store->get("t.bin");
  std::vector<int64_t> out(97);
  const auto message = [&](const std::function<void()>& body) {
    try {
      body();
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(message([&] { decode_tokens(file, std::span(bytes).first(388), 0, 0, out); }),
              HasSubstr("token number 0 is -3"));
  EXPECT_THAT(message([&] { decode_tokens(file, std::span(bytes).subspan(12), 3, 50, out); }),
              HasSubstr("token number 53 is 50; expected 0 to 49"));
  decode_tokens(file, std::span(bytes).subspan(12), 3, 97, out);
  EXPECT_EQ(out, counting(0, 97));
}

}  // namespace
}  // namespace craton::tokens
