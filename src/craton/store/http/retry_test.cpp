#include "craton/store/http/retry.h"

#include <gtest/gtest.h>

#include "craton/base/error.h"
#include "craton/store/http/message.h"
#include "craton/store/http/transfer.h"
#include "craton/store/http/url.h"

namespace craton::store::http {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

const Clock::time_point kStart{};

Outcome status(int code, std::string text = "") {
  Outcome outcome;
  outcome.status = code;
  outcome.code = std::move(text);
  return outcome;
}

Outcome fault(Fault what, bool progressed = false) {
  Outcome outcome;
  outcome.fault = what;
  outcome.progressed = progressed;
  return outcome;
}

TEST(Retry, KnowsWhatMaySucceedLater) {
  for (int code : {408, 429, 500, 502, 503, 504}) EXPECT_TRUE(is_transient(status(code))) << code;
  for (int code : {301, 400, 401, 403, 404, 405, 411, 412, 416, 501})
    EXPECT_FALSE(is_transient(status(code))) << code;
  EXPECT_TRUE(is_transient(status(400, "RequestTimeout")));
  EXPECT_TRUE(is_transient(status(400, "SlowDown")));
  EXPECT_TRUE(is_transient(status(409, "OperationAborted")));
  for (Fault what : {Fault::kResolve, Fault::kConnect, Fault::kFirstByte, Fault::kStalled,
                     Fault::kCut, Fault::kWrongAnswer, Fault::kChanged})
    EXPECT_TRUE(is_transient(fault(what))) << to_string(what);
  for (Fault what : {Fault::kTls, Fault::kDeadline, Fault::kCancelled})
    EXPECT_FALSE(is_transient(fault(what))) << to_string(what);
  EXPECT_TRUE(asks_to_slow_down(status(503)));
  EXPECT_FALSE(asks_to_slow_down(status(500)));
  EXPECT_TRUE(credentials_expired(status(400, "ExpiredToken")));
  EXPECT_FALSE(credentials_expired(status(403, "AccessDenied")));
}

TEST(Retry, WaitsGrowWithFullJitterUpToTheCap) {
  Limits limits;
  limits.attempts = 20;
  limits.backoff_base = 100ms;
  limits.backoff_cap = 1000ms;
  Retries retries(limits, kStart, 0);
  for (int64_t ceiling : {100, 200, 400, 800, 1000, 1000}) {
    Retries same = retries;
    EXPECT_EQ(*same.next(status(503), kStart, static_cast<uint64_t>(ceiling)),
              milliseconds(ceiling));  // the largest wait
    EXPECT_EQ(*retries.next(status(503), kStart, static_cast<uint64_t>(ceiling + 1)), 0ms);
  }
}

TEST(Retry, EndsByAttemptsOrByTheDeadline) {
  Limits limits;
  limits.attempts = 3;
  Retries by_attempts(limits, kStart, 0);
  EXPECT_TRUE(by_attempts.next(status(500), kStart, 0));
  EXPECT_TRUE(by_attempts.next(status(500), kStart, 0));
  EXPECT_FALSE(by_attempts.next(status(500), kStart, 0));
  EXPECT_EQ(by_attempts.attempts(), 3);
  Retries by_time(limits, kStart, 0);
  EXPECT_FALSE(by_time.next(status(500), kStart + limits.overall, 0));
  Retries never(limits, kStart, 0);
  EXPECT_FALSE(never.next(status(403), kStart, 0));
}

TEST(Retry, ProgressStartsTheCountAgain) {
  Limits limits;
  limits.attempts = 2;
  Retries retries(limits, kStart, 0);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(retries.next(fault(Fault::kCut, true), kStart, 0)) << i;
  EXPECT_TRUE(retries.next(fault(Fault::kCut), kStart, 0));
  EXPECT_FALSE(retries.next(fault(Fault::kCut), kStart, 0));
}

TEST(Retry, HonoursRetryAfterUnlessItIsPastTheDeadline) {
  Limits limits;
  Retries retries(limits, kStart, 0);
  Outcome outcome = status(503);
  outcome.retry_after = 7s;
  EXPECT_EQ(*retries.next(outcome, kStart, 0), 7s);
  outcome.retry_after = 24h;
  EXPECT_FALSE(retries.next(outcome, kStart, 0));
  const auto now = std::chrono::system_clock::from_time_t(784111777);  // 1994-11-06 08:49:37
  EXPECT_EQ(parse_retry_after("12", now), 12s);
  EXPECT_EQ(parse_retry_after("Sun, 06 Nov 1994 08:50:37 GMT", now), 60s);
  EXPECT_EQ(parse_retry_after("Sun, 06 Nov 1994 08:49:00 GMT", now), 0s);
  EXPECT_EQ(parse_retry_after("99999999999999", now), 24h);
  for (const char* text : {"", "soon", "-1", "1.5", "Sun, 06 Nov 1994 08:49:37 CET"})
    EXPECT_FALSE(parse_retry_after(text, now)) << text;
}

TEST(Retry, LargeBodiesGetMoreTime) {
  Limits limits;
  EXPECT_EQ(Retries(limits, kStart, 1).deadline(), kStart + limits.overall);
  EXPECT_EQ(Retries(limits, kStart, 128 << 20).deadline(), kStart + 2 * limits.overall);
}

TEST(Retry, LimitsComeFromTheEnvironment) {
  const auto with = [](const std::string& name, const std::string& value) {
    return [=](const std::string& asked) -> std::optional<std::string> {
      return asked == name ? std::optional(value) : std::nullopt;
    };
  };
  EXPECT_EQ(limits_from(with("CRATON_STORE_STALL_SECONDS", "3")).stall, 3s);
  EXPECT_EQ(limits_from(with("CRATON_STORE_ATTEMPTS", "2")).attempts, 2);
  EXPECT_THROW(limits_from(with("CRATON_STORE_CONNECT_SECONDS", "0")), Error);
  EXPECT_THROW(limits_from(with("CRATON_STORE_ATTEMPTS", "many")), Error);
}

TEST(Deadlines, EachPhaseHasItsOwn) {
  Limits limits;
  const auto deadline = kStart + 1h;
  TransferTimes times;
  times.started = kStart;
  EXPECT_EQ(judge(times, limits, deadline, kStart + limits.connect - 1ms), Fault::kNone);
  EXPECT_EQ(judge(times, limits, deadline, kStart + limits.connect), Fault::kConnect);
  times.is_connected = times.is_sent = true;
  times.sent = kStart + 1s;
  EXPECT_EQ(judge(times, limits, deadline, kStart + limits.first_byte), Fault::kNone);
  EXPECT_EQ(judge(times, limits, deadline, kStart + 1s + limits.first_byte), Fault::kFirstByte);
  times.has_answer = true;
  times.last_mark = kStart + 2s;
  times.moved = limits.stall_bytes - 1;
  EXPECT_EQ(judge(times, limits, deadline, kStart + 2s + limits.stall), Fault::kStalled);
  times.moved = limits.stall_bytes;
  EXPECT_EQ(judge(times, limits, deadline, kStart + 2s + limits.stall), Fault::kNone);
  EXPECT_EQ(times.last_mark, kStart + 2s + limits.stall);
  EXPECT_EQ(judge(times, limits, deadline, deadline), Fault::kDeadline);
}

TEST(Deadlines, AnUploadThatStallsIsNoticedBeforeItsAnswer) {
  Limits limits;
  TransferTimes times;
  times.started = times.last_mark = kStart;
  times.is_connected = true;
  EXPECT_EQ(judge(times, limits, kStart + 1h, kStart + limits.stall), Fault::kStalled);
}

TEST(Url, ReadsItsPartsAndRefusesTheRest) {
  const Url url = parse_url("HTTP://Host.example:8080/a%20b/c?x=1&y#part");
  EXPECT_EQ(url.scheme, "http");
  EXPECT_EQ(url.authority(), "host.example:8080");
  EXPECT_EQ(url.path, "/a%20b/c");
  EXPECT_EQ(url.query, "x=1&y");
  EXPECT_EQ(parse_url("https://h:443").text(), "https://h/");
  EXPECT_EQ(parse_url("http://[::1]:80?q").text(), "http://[::1]/?q");
  for (const char* text : {"", "ftp://h", "http://", "http://h:0", "http://h:99999", "http://h:x",
                           "http://user:secret@h/", "http://h/a b", "h/a", "http://h\n"}) {
    try {
      parse_url(text);
      ADD_FAILURE() << text << " was accepted";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kInvalidArgument);
      EXPECT_EQ(std::string(e.what()).find("secret"), std::string::npos);
    }
  }
}

TEST(Url, EncodesEverythingThatIsNotUnreserved) {
  EXPECT_EQ(percent_encode("a b/c+~*\xc3\xa4", true), "a%20b/c%2B~%2A%C3%A4");
  EXPECT_EQ(percent_encode("a/b"), "a%2Fb");
  EXPECT_EQ(percent_decode("a%20b%2Fc+%zz%4", false), "a b/c+%zz%4");
  EXPECT_EQ(percent_decode("a+b%2B", true), "a b+");
}

TEST(ContentRange, IsTakenOnlyWhole) {
  const auto range = parse_content_range("bytes 3-6/10");
  ASSERT_TRUE(range);
  EXPECT_EQ(*range->first, 3u);
  EXPECT_EQ(*range->last, 6u);
  EXPECT_EQ(*range->total, 10u);
  EXPECT_FALSE(parse_content_range("bytes 3-6/*")->total);
  EXPECT_EQ(*parse_content_range("bytes */10")->total, 10u);
  for (const char* text :
       {"", "bytes", "bytes 3-6", "bytes 6-3/10", "bytes 3-10/10", "bytes -6/10", "bytes */*",
        "items 3-6/10", "bytes 3-6/10 ", "bytes 0x3-6/10", "bytes 99999999999999999999-6/10"})
    EXPECT_FALSE(parse_content_range(text)) << text;
}

}  // namespace
}  // namespace craton::store::http
