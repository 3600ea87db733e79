#include "craton/tokens/token_sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "craton/base/error.h"
#include "craton/tokens/token_fixture.h"

namespace craton::tokens {
namespace {

using ::testing::HasSubstr;

/// A file that nobody reads.
TokenFile file_of(int64_t count, TokenType type = TokenType::kUint16) {
  TokenFile file;
  file.uri = "memory://nowhere/" + std::to_string(count);
  file.type = type;
  file.count = count;
  return file;
}

TokenSamplerSettings settings(int64_t sequence, double validation = 0.1) {
  TokenSamplerSettings s;
  s.sequence = sequence;
  s.seed = 5;
  s.validation_fraction = validation;
  s.working_set_bytes = 64 << 10;
  return s;
}

TEST(TokenSampler, EachWindowOfAPassComesOnceAndPredictsEachTokenOnce) {
  const TokenSampler sampler({{{file_of(100'001), file_of(5000), file_of(300)}}}, settings(100));
  const int64_t count = sampler.windows_per_pass(0);
  std::set<int64_t> phases;
  for (int64_t pass = 0; pass < 3; ++pass) {
    std::map<int32_t, std::set<int64_t>> predicted;
    for (int64_t n = pass * count; n < (pass + 1) * count; ++n) {
      const TokenWindow w = sampler.locate(n);
      EXPECT_EQ(w.pass, pass);
      ASSERT_GE(w.first, 0);
      ASSERT_LE(w.first + 101, sampler.file(w).count);
      if (w.file == 0) phases.insert(w.first % 100);
      for (int64_t k = 1; k <= 100; ++k)
        ASSERT_TRUE(predicted[w.file].insert(w.first + k).second) << "predicted twice";
    }
    // All but what validation keeps and what is left of a window at both ends.
    EXPECT_GE(predicted[0].size(), 100'001u - 10'000 - 2 * 100);
    EXPECT_GE(predicted[1].size(), 5000u - 500 - 2 * 100);
    EXPECT_EQ(predicted[2].size(), 100u);  // two windows: one of them for validation
  }
  EXPECT_GT(phases.size(), 1u) << "every pass cuts at the same places";
}

TEST(TokenSampler, ValidationIsNeverPredictedInTraining) {
  const TokenSampler sampler({{{file_of(40'000), file_of(20'000)}}}, settings(64));
  std::set<std::pair<int32_t, int64_t>> kept;
  ASSERT_EQ(sampler.validation_size(), 32);
  for (int64_t k = 0; k < sampler.validation_size(); ++k) {
    const TokenWindow w = sampler.locate_validation(k);
    ASSERT_LE(w.first + 65, sampler.file(w).count);
    for (int64_t i = 1; i <= 64; ++i)
      EXPECT_TRUE(kept.insert({w.file, w.first + i}).second) << "twice in validation";
  }
  for (int64_t n = 0; n < 3 * sampler.windows_per_pass(0); ++n) {
    const TokenWindow w = sampler.locate(n);
    for (int64_t i = 1; i <= 64; ++i) ASSERT_FALSE(kept.contains({w.file, w.first + i}));
  }
}

TEST(TokenSampler, IsAFunctionOfTheNumberAndTheSeed) {
  const auto make = [](uint64_t seed) {
    auto s = settings(128);
    s.seed = seed;
    return std::make_unique<TokenSampler>(
        std::vector<TokenSource>{{{file_of(50'000)}}, {{file_of(70'000), file_of(9000)}}}, s);
  };
  const auto a = make(1), b = make(1), c = make(2);
  int differ = 0;
  for (int64_t n = 2000; n-- > 0;) {
    EXPECT_EQ(a->locate(n), b->locate(n));
    differ += a->locate(n) != c->locate(n);
  }
  for (int64_t n = 0; n < 2000; n += 7) EXPECT_EQ(a->locate(n), b->locate(n));
  EXPECT_GT(differ, 1900);
}

TEST(TokenSampler, SourcesTakeTheirShare) {
  const TokenSampler sampler({{{file_of(50'000)}, 3}, {{file_of(500'000)}, 1}}, settings(100));
  int64_t first = 0;
  for (int64_t n = 0; n < 4096; ++n) first += sampler.locate(n).source == 0;
  EXPECT_EQ(first, 3072);
  const TokenSampler by_size({{{file_of(50'000)}}, {{file_of(500'000)}}}, settings(100));
  EXPECT_NEAR(by_size.share(0), 1.0 / 11, 0.01);
}

/// A group of blocks is used up before the next one begins, so what was read for it can go.
TEST(TokenSampler, WorkStaysInTheWorkingSet) {
  const TokenSampler sampler({{{file_of(1'000'000)}}}, settings(100, 0));
  const int64_t count = sampler.windows_per_pass(0);
  // 64 KiB of uint16: half of it is one group, of four blocks.
  const int64_t group = 4 * (8192 / 200);
  std::map<int64_t, std::set<int64_t>> blocks;
  for (int64_t n = 0; n < count; ++n)
    blocks[n / group].insert(sampler.locate(n).first / (8192 / 200 * 100));
  int64_t mixed = 0;
  for (const auto& [number, seen] : blocks) {
    EXPECT_LE(seen.size(), 16u);  // phases shift the borders, the short last block all groups
    mixed += seen.size() > 1;
  }
  EXPECT_GT(mixed, static_cast<int64_t>(blocks.size()) - 2);
}

TEST(TokenSampler, WhatCannotWorkIsSaid) {
  const auto error = [](std::vector<TokenSource> sources, const TokenSamplerSettings& s) {
    try {
      const TokenSampler sampler(std::move(sources), s);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kInvalidArgument);
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(error({{{file_of(100)}}}, settings(100)), HasSubstr("the longest has 100"));
  EXPECT_EQ(error({{{file_of(101)}}}, settings(100)), "no error");
  EXPECT_THAT(error({}, settings(100)), HasSubstr("0 sources"));
  EXPECT_THAT(error({{{file_of(1000)}, 1}, {{file_of(1000)}}}, settings(10)), HasSubstr("1 of 2"));
  EXPECT_THAT(error({{{file_of(1000)}}}, settings(0)), HasSubstr("sequence"));
}

}  // namespace
}  // namespace craton::tokens
