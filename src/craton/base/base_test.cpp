#include <gtest/gtest.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "craton/base/base64.h"
#include "craton/base/check.h"
#include "craton/base/error.h"
#include "craton/base/philox.h"
#include "craton/base/sha256.h"
#include "craton/base/strong.h"
#include "craton/base/units.h"

namespace craton {
namespace {

TEST(Base64, MatchesTheStandard) {
  const auto encode = [](std::string_view text) {
    return encode_base64(std::as_bytes(std::span(text)));
  };
  EXPECT_EQ(encode(""), "");
  EXPECT_EQ(encode("f"), "Zg==");
  EXPECT_EQ(encode("fo"), "Zm8=");
  EXPECT_EQ(encode("foo"), "Zm9v");
  EXPECT_EQ(encode("foobar"), "Zm9vYmFy");
}

TEST(Base64, RoundTripsEveryLength) {
  std::vector<std::byte> bytes;
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(decode_base64(encode_base64(bytes)), bytes);
    bytes.push_back(static_cast<std::byte>(37 * i + 250));
  }
  EXPECT_THROW(decode_base64("ab%d"), Error);
}

TEST(Error, CarriesContext) {
  try {
    throw Error(ErrorCode::kNotFound, "no such chunk").with("key", "a/c/0").with("attempt", "3");
  } catch (const std::exception& e) {
    EXPECT_STREQ(e.what(), "no such chunk (key a/c/0, attempt 3)");
  }
}

TEST(Error, ErrnoPicksTheCode) {
  try {
    fail_errno("cannot write x", ENOSPC);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kResourceExhausted);
    EXPECT_STREQ(e.what(), "cannot write x: No space left on device");
  }
}

TEST(CheckDeathTest, SaysWhere) {
  EXPECT_DEATH(CRATON_CHECK(1 + 1 == 3, "sum {}", 2), "base_test.cpp:.*1 \\+ 1 == 3: sum 2");
}

TEST(Units, BytesRoundTrip) {
  EXPECT_EQ(parse_bytes("512"), 512u);
  EXPECT_EQ(parse_bytes("64MiB"), 64u << 20);
  EXPECT_EQ(parse_bytes("1.5 GB"), 1500000000u);
  EXPECT_EQ(parse_bytes("2g"), 2ull << 30);
  EXPECT_THROW(parse_bytes("12 parsecs"), Error);
  EXPECT_THROW(parse_bytes("-3"), Error);
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_seconds(75), "1m15s");
}

// Known answers of the Random123 distribution for Philox4x32-10 fix the rounds; the wrapper's
// mixing is fixed by itself.
TEST(Philox, IsAFunctionOfItsKeyOnly) {
  const Philox a(1, RandomPurpose::kTest, 5, 2), b(1, RandomPurpose::kTest, 5, 2);
  EXPECT_EQ(a.block(123456789012ull), b.block(123456789012ull));
  EXPECT_NE(a.block(0), Philox(2, RandomPurpose::kTest, 5, 2).block(0));
  EXPECT_NE(a.block(0), Philox(1, RandomPurpose::kMask, 5, 2).block(0));
  EXPECT_NE(a.block(0), Philox(1, RandomPurpose::kTest, 6, 2).block(0));
  EXPECT_NE(a.block(0), Philox(1, RandomPurpose::kTest, 5, 3).block(0));
}

TEST(Philox, MomentsOfUniformAndNormal) {
  const Philox random(7, RandomPurpose::kTest);
  double sum = 0, normal_sum = 0, normal_square = 0;
  constexpr int kCount = 100000;
  for (int i = 0; i < kCount; ++i) {
    sum += random.uniform(i);
    const double z = random.normal(i);
    normal_sum += z;
    normal_square += z * z;
  }
  EXPECT_NEAR(sum / kCount, 0.5, 0.005);
  EXPECT_NEAR(normal_sum / kCount, 0, 0.015);
  EXPECT_NEAR(normal_square / kCount, 1, 0.02);
}

TEST(Philox, BelowStaysBelow) {
  const Philox random(7, RandomPurpose::kTest);
  int seen[5] = {};
  for (int i = 0; i < 1000; ++i) ++seen[random.below(i, 5)];
  for (int count : seen) EXPECT_NEAR(count, 200, 70);
}

TEST(Sha256, KnownAnswer) {
  Sha256 hash;
  hash.update(std::as_bytes(std::span("abc", 3)));
  EXPECT_EQ(hash.hex_digest(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Strong, ComparesAndCounts) {
  EXPECT_LT(Rank(1), Rank(2));
  EXPECT_EQ(Generation(4).next(), Generation(5));
}

}  // namespace
}  // namespace craton
