#include "craton/volume/segy/sample_format.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "craton/base/philox.h"

namespace craton::volume::segy {
namespace {

/// The definition, in extended precision: (-1)^s * 0.f * 16^(e-64), rounded once.
float by_formula(uint32_t word) {
  const long double fraction = static_cast<long double>(word & 0xffffff) / 16777216.0L;
  const long double value = std::ldexp(fraction, 4 * (static_cast<int>(word >> 24 & 0x7f) - 64));
  return static_cast<float>(word >> 31 ? -value : value);
}

std::vector<float> decode(int format, ByteOrder order, std::vector<uint8_t> bytes) {
  std::vector<float> out(bytes.size() / static_cast<size_t>(sample_bytes(format)));
  decode_samples(format, order, reinterpret_cast<const std::byte*>(bytes.data()), out);
  return out;
}

TEST(IbmFloat, KnownWords) {
  EXPECT_EQ(ibm_to_float(0xC276A000u), -118.625f);
  EXPECT_EQ(ibm_to_float(0x41100000u), 1.0f);
  EXPECT_EQ(ibm_to_float(0u), 0.0f);
  EXPECT_TRUE(std::signbit(ibm_to_float(0x80000000u)));
}

TEST(IbmFloat, WordsThatAreNotNormalised) {
  EXPECT_EQ(ibm_to_float(0x40000000u), 0.0f);
  EXPECT_EQ(ibm_to_float(0x45000001u), 0.0625f);
  EXPECT_EQ(ibm_to_float(0x42010000u), 1.0f);
}

TEST(IbmFloat, TooLargeIsInfiniteAndCounted) {
  EXPECT_EQ(ibm_to_float(0x60ffffffu), std::numeric_limits<float>::max());
  EXPECT_TRUE(std::isinf(ibm_to_float(0x61100000u)));
  EXPECT_TRUE(std::isinf(ibm_to_float(0x61100001u)));
  EXPECT_EQ(ibm_to_float(0xffffffffu), -std::numeric_limits<float>::infinity());
  const uint8_t words[] = {0x61, 0x10, 0, 1, 0x7f, 0xff, 0xff, 0xff, 0x60, 0xff, 0xff, 0xff};
  EXPECT_EQ(count_ibm_overflow(ByteOrder::kBig, reinterpret_cast<const std::byte*>(words), 3), 2);
}

TEST(IbmFloat, TinyIsSubnormalNotZero) {
  EXPECT_EQ(ibm_to_float(0x20800000u), std::ldexp(1.0f, -129));
  EXPECT_EQ(ibm_to_float(0x00000001u), 0.0f);
  EXPECT_EQ(ibm_to_float(0x1b800000u), std::ldexp(1.0f, -149));
}

TEST(IbmFloat, EveryWordIsTheFormulaRoundedOnce) {
  const Philox random(1, RandomPurpose::kTest);
  for (uint64_t i = 0; i < 2'000'000; ++i) {
    const uint32_t word = random.bits(i);
    ASSERT_EQ(std::bit_cast<uint32_t>(ibm_to_float(word)),
              std::bit_cast<uint32_t>(by_formula(word)))
        << std::hex << word;
  }
}

TEST(IbmFloat, EachExponentWithEdgeFractions) {
  for (uint32_t exponent = 0; exponent < 128; ++exponent) {
    for (uint32_t fraction :
         {0u, 1u, 2u, 3u, 0xfffffu, 0x100000u, 0x100001u, 0x7fffffu, 0x800000u, 0xffffffu}) {
      for (uint32_t sign : {0u, 0x80000000u}) {
        const uint32_t word = sign | exponent << 24 | fraction;
        ASSERT_EQ(std::bit_cast<uint32_t>(ibm_to_float(word)),
                  std::bit_cast<uint32_t>(by_formula(word)))
            << std::hex << word;
      }
    }
  }
}

TEST(IbmFloat, NormalisedWordsComeBack) {
  const Philox random(2, RandomPurpose::kTest);
  for (uint64_t i = 0; i < 1'000'000; ++i) {
    const uint32_t word =
        (random.bits(i) & 0x80ffffffu) | (0x22u + random.bits(i + 7'000'000) % 0x3f) << 24;
    if ((word & 0xf00000) == 0) continue;
    ASSERT_EQ(float_to_ibm(ibm_to_float(word)), word) << std::hex << word;
  }
}

TEST(IbmFloat, NearestWordOfAnyFloat) {
  EXPECT_EQ(float_to_ibm(-118.625f), 0xC276A000u);
  EXPECT_EQ(float_to_ibm(0.1f), 0x4019999au);
  EXPECT_EQ(float_to_ibm(std::numeric_limits<float>::infinity()), 0x7fffffffu);
  EXPECT_EQ(float_to_ibm(std::numeric_limits<float>::denorm_min()), 0x1b800000u);
  const Philox random(3, RandomPurpose::kTest);
  for (uint64_t i = 0; i < 200'000; ++i) {
    const auto value = std::bit_cast<float>(random.bits(i));
    if (!std::isfinite(value)) continue;
    // 21 bits of fraction are always there.
    ASSERT_NEAR(ibm_to_float(float_to_ibm(value)), value, std::ldexp(std::abs(value), -21))
        << value;
  }
}

TEST(SampleFormat, EachCodeInBothByteOrders) {
  struct Case {
    int format;
    std::vector<uint8_t> big;
    float value;
  };
  const std::vector<Case> cases = {
      {kIbmFloat, {0xC2, 0x76, 0xA0, 0x00}, -118.625f},
      {kInt32, {0xff, 0xff, 0xff, 0xfe}, -2},
      {kInt16, {0x80, 0x00}, -32768},
      {kIeeeFloat, {0xc2, 0xed, 0x40, 0x00}, -118.625f},
      {kIeeeDouble, {0xc0, 0x5d, 0xa8, 0, 0, 0, 0, 0}, -118.625f},
      {kInt24, {0xff, 0xff, 0xfd}, -3},
      {kInt24, {0x7f, 0xff, 0xff}, 8388607},
      {kInt8, {0x80}, -128},
      {kInt64, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfc}, -4},
      {kUint32, {0xff, 0xff, 0xff, 0xff}, 4294967296.0f},
      {kUint16, {0xff, 0xfe}, 65534},
      {kUint64, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, 18446744073709551616.0f},
      {kUint24, {0xff, 0xff, 0xfe}, 16777214},
      {kUint8, {0xff}, 255},
      {kFixedGain, {0x00, 0x02, 0xff, 0xfc}, -1},
  };
  for (const Case& c : cases) {
    const std::vector<uint8_t> little(c.big.rbegin(), c.big.rend());
    EXPECT_EQ(decode(c.format, ByteOrder::kBig, c.big), std::vector<float>{c.value}) << c.format;
    EXPECT_EQ(decode(c.format, ByteOrder::kLittle, little), std::vector<float>{c.value})
        << c.format;
  }
  for (int code : {0, 13, 14, 17, -1}) EXPECT_EQ(sample_bytes(code), 0) << code;
}

TEST(SampleFormat, WhatIsEncodedDecodes) {
  for (int format : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 15, 16}) {
    for (ByteOrder order : {ByteOrder::kBig, ByteOrder::kLittle}) {
      const std::vector<float> values = {0, 1, 2, 100, 126};
      std::vector<std::byte> raw(values.size() * static_cast<size_t>(sample_bytes(format)));
      EXPECT_EQ(encode_samples(format, order, values, raw.data()), 0) << format;
      std::vector<float> back(values.size());
      decode_samples(format, order, raw.data(), back);
      EXPECT_EQ(back, values) << format;
    }
  }
}

TEST(SampleFormat, IntegersAreClampedAndCounted) {
  const std::vector<float> values = {1e9f, -1e9f, 1.5f, 2.5f,
                                     std::numeric_limits<float>::quiet_NaN()};
  std::vector<std::byte> raw(values.size() * 2);
  EXPECT_EQ(encode_samples(kInt16, ByteOrder::kBig, values, raw.data()), 3);
  std::vector<float> back(values.size());
  decode_samples(kInt16, ByteOrder::kBig, raw.data(), back);
  EXPECT_EQ(back, (std::vector<float>{32767, -32768, 2, 2, 0}));
}

TEST(SampleFormat, LeadingDigitsTellIbmFromIeee) {
  const Philox random(4, RandomPurpose::kTest);
  std::vector<std::byte> ibm(4 * 10000), ieee(4 * 10000);
  for (uint64_t i = 0; i < 10000; ++i) {
    const auto value = static_cast<float>(random.normal(i)) * 1000;
    store<uint32_t>(ibm.data() + 4 * i, float_to_ibm(value), ByteOrder::kBig);
    store<float>(ieee.data() + 4 * i, value, ByteOrder::kBig);
  }
  LeadingDigits of_ibm, of_ieee;
  count_leading_digits(ByteOrder::kBig, ibm.data(), 10000, of_ibm);
  count_leading_digits(ByteOrder::kBig, ieee.data(), 10000, of_ieee);
  EXPECT_EQ(of_ibm.share(), 0);
  EXPECT_GT(of_ieee.share(), 0.03);
}

}  // namespace
}  // namespace craton::volume::segy
