#include "craton/tokens/token_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "craton/base/error.h"
#include "craton/runtime/file.h"
#include "craton/store/http/http_store.h"
#include "craton/testing/http_fault_server.h"
#include "craton/tokens/token_fixture.h"

namespace craton::tokens {
namespace {

using namespace std::chrono_literals;
using craton::testing::HttpAnswer;
using craton::testing::HttpFaultServer;
using craton::testing::HttpRequest;
using ::testing::HasSubstr;

constexpr int64_t kSequence = 300;

TokenSamplerSettings settings() {
  TokenSamplerSettings s;
  s.sequence = kSequence;
  s.seed = 9;
  s.working_set_bytes = 2 << 20;
  return s;
}

/// Takes windows and compares each with the file's own tokens, which count up from `base`.
void expect_right(TokenLoader& loader, const TokenSampler& sampler, int64_t first, int64_t count) {
  std::vector<int64_t> out(kSequence + 1);
  for (int64_t n = first; n < first + count; ++n) {
    loader.take(n, out);
    const TokenWindow w = sampler.locate(n);
    for (int64_t i = 0; i <= kSequence; ++i)
      ASSERT_EQ(out[static_cast<size_t>(i)], (w.first + i) % 60'000) << "sample " << n;
  }
}

store::Bytes cycling(int64_t count) {
  fixture::FileBuilder file;
  for (int64_t i = 0; i < count; ++i) file.add(static_cast<uint16_t>(i % 60'000));
  return file.bytes();
}

std::vector<int64_t> range(int64_t first, int64_t count) {
  std::vector<int64_t> out;
  for (int64_t n = first; n < first + count; ++n) out.push_back(n);
  return out;
}

TEST(TokenLoader, GivesEachWindowsOwnTokensInAnyOrderWithinTheBudget) {
  const std::string uri = fixture::fresh_uri();
  store::open_store(uri)->put("t.bin", cycling(1'500'000));  // 3 MB, 12 pages
  const auto sampler = std::make_shared<TokenSampler>(
      std::vector<TokenSource>{{open_token_files(uri + "/t.bin", {"uint16", {}})}}, settings());
  const uint64_t budget = 4 * TokenLoader::kPageBytes + 4096;
  TokenLoader loader(sampler, {budget, 60'000});
  expect_right(loader, *sampler, 0, 20);  // unexpected
  for (int64_t n = 20; n < 2000; n += 10) {
    loader.expect(range(n, 30));
    expect_right(loader, *sampler, n, 10);
  }
  loader.expect(range(5000, 10));  // never taken
  expect_right(loader, *sampler, 100, 10);
  EXPECT_LE(loader.metrics().peak_bytes, budget);
  std::vector<int64_t> out(kSequence + 1);
  for (int64_t k = 0; k < sampler->validation_size(); ++k) {
    loader.take_validation(k, out);
    EXPECT_EQ(out[0], sampler->locate_validation(k).first % 60'000);
  }
}

/// With room for the working set, a pass reads each page about once.
TEST(TokenLoader, APassFetchesAboutWhatIsStored) {
  const std::string uri = fixture::fresh_uri();
  store::open_store(uri)->put("t.bin", cycling(8'000'000));  // 16 MB
  auto s = settings();
  s.working_set_bytes = 4 << 20;
  const auto sampler = std::make_shared<TokenSampler>(
      std::vector<TokenSource>{{open_token_files(uri + "/t.bin", {"uint16", {}})}}, s);
  TokenLoader loader(sampler, {6 << 20, 0});
  const int64_t count = sampler->windows_per_pass(0);
  std::vector<int64_t> out(kSequence + 1);
  for (int64_t n = 0; n < count; ++n) {
    if (n % 16 == 0) loader.expect(range(n, 32));
    loader.take(n, out);
  }
  const TokenLoaderMetrics metrics = loader.metrics();
  EXPECT_LE(metrics.peak_bytes, 6u << 20);
  // Blocks of 512 KiB end within a page: at most one more page for each.
  EXPECT_LT(metrics.bytes_fetched, 16'000'000u * 8 / 5);
}

TEST(TokenLoader, ManyThreadsTakeAtOnce) {
  const std::string uri = fixture::fresh_uri();
  store::open_store(uri)->put("t.bin", cycling(1'000'000));
  const auto sampler = std::make_shared<TokenSampler>(
      std::vector<TokenSource>{{open_token_files(uri + "/t.bin", {"uint16", {}})}}, settings());
  TokenLoader loader(sampler, {3 << 20, 0});
  std::vector<std::thread> threads;
  for (int64_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] { expect_right(loader, *sampler, 200 * t, 200); });
  for (auto& thread : threads) thread.join();
}

/// A token file on a server that fails in the ways that have been met in the field.
class FaultyTokens : public ::testing::Test {
 protected:
  using Spoil = std::function<void(const HttpRequest&, int times_asked, HttpAnswer&)>;

  std::shared_ptr<TokenSampler> serve(Spoil spoil) {
    const store::Bytes bytes = cycling(1'000'000);
    content_.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    spoil_ = std::move(spoil);
    server_ = std::make_unique<HttpFaultServer>([this](const HttpRequest& r) { return answer(r); });
    store::http::Limits limits;
    limits.first_byte = limits.stall = 300ms;
    limits.backoff_base = limits.backoff_cap = 1ms;
    limits.attempts = 3;
    TokenFile file;
    file.store =
        std::make_shared<store::http::HttpStore>(store::http::parse_url(server_->url()), limits);
    file.key = "t.bin";
    file.uri = server_->url() + "/t.bin";
    file.etag = "\"1\"";
    file.count = 1'000'000;
    return std::make_shared<TokenSampler>(std::vector<TokenSource>{{{file}}}, settings());
  }
  HttpAnswer answer(const HttpRequest& request) {
    HttpAnswer out = craton::testing::serve_object(request, content_, etag_);
    spoil_(request, ++asked_, out);
    return out;
  }
  std::string content_, etag_ = "\"1\"";
  Spoil spoil_;
  int asked_ = 0;
  std::unique_ptr<HttpFaultServer> server_;
};

TEST_F(FaultyTokens, ErrorsCutsAndStallsThatPassAreNotSeen) {
  const auto sampler = serve([](const HttpRequest&, int times, HttpAnswer& a) {
    if (times % 4 == 1) a.status = 503, a.body = "slow down", a.headers.clear();
    if (times % 4 == 2) a.cut_after = a.body.size() / 3;
    if (times % 7 == 3) a.stall_after = 1000;
  });
  TokenLoader loader(sampler, {3 << 20, 0});
  loader.expect(range(0, 40));
  expect_right(loader, *sampler, 0, 40);
}

TEST_F(FaultyTokens, WhatStaysWrongIsAnErrorWithTheFileAndNeverTokens) {
  bool broken = true;
  const auto sampler = serve([&](const HttpRequest&, int, HttpAnswer& a) {
    if (broken) a.status = 500, a.body.clear(), a.headers.clear();
  });
  TokenLoader loader(sampler, {3 << 20, 0});
  std::vector<int64_t> out(kSequence + 1, -7);
  loader.expect(range(0, 4));
  EXPECT_THROW(loader.take(0, out), Error);
  EXPECT_EQ(out[0], -7);
  broken = false;  // and when the server is back, the same loader goes on
  expect_right(loader, *sampler, 0, 4);
}

TEST_F(FaultyTokens, AFileThatChangesIsAnError) {
  const auto sampler = serve([](const HttpRequest&, int, HttpAnswer&) {});
  TokenLoader loader(sampler, {3 << 20, 0});
  expect_right(loader, *sampler, 0, 2);
  etag_ = "\"2\"";
  std::vector<int64_t> out(kSequence + 1);
  std::string message;
  try {
    for (int64_t n = 2; n < 2000; ++n) loader.take(n, out);
  } catch (const Error& e) {
    message = e.what();
  }
  EXPECT_THAT(message, HasSubstr("t.bin"));
}

TEST(TokenLoader, ATightBudgetIsRefusedWithTheNeed) {
  const std::string uri = fixture::fresh_uri();
  store::open_store(uri)->put("t.bin", cycling(100'000));
  const auto sampler = std::make_shared<TokenSampler>(
      std::vector<TokenSource>{{open_token_files(uri + "/t.bin", {"uint16", {}})}}, settings());
  try {
    TokenLoader loader(sampler, {1 << 20, 0});
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("data.prefetch_bytes"));
  }
}

/// A real text, a byte a token, from a file.
TEST(TokenLoader, RealTextFromAFolder) {
  const char* given = std::getenv("CRATON_TEST_DATA");
  std::filesystem::path folder = std::filesystem::current_path();
  while (!given && !std::filesystem::exists(folder / "../shared/data") &&
         folder.has_relative_path())
    folder = folder.parent_path();
  const std::filesystem::path text =
      (given ? std::filesystem::path(given) : folder / "../shared/data") / "SOURCES.md";
  if (!std::filesystem::exists(text)) GTEST_SKIP() << "no text at " << text;
  const store::Bytes bytes = runtime::read_file(text);
  auto s = settings();
  s.sequence = 64;
  const auto sampler = std::make_shared<TokenSampler>(
      std::vector<TokenSource>{{open_token_files(text.string(), {"uint8", {}})}}, s);
  TokenLoader loader(sampler, {4 << 20, 256});
  std::vector<int64_t> out(65);
  for (int64_t n = 0; n < 50; ++n) {
    loader.take(n, out);
    for (size_t i = 0; i < out.size(); ++i)
      EXPECT_EQ(out[i],
                static_cast<int64_t>(bytes[static_cast<size_t>(sampler->locate(n).first) + i]));
  }
}

}  // namespace
}  // namespace craton::tokens
