// Reading from a server that does what real ones seldom do.

#include "craton/store/http/http_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "craton/testing/http_fault_server.h"

namespace craton::store::http {
namespace {

using namespace std::chrono_literals;
using craton::testing::HttpAnswer;
using craton::testing::HttpFaultServer;
using craton::testing::HttpRequest;
using craton::testing::serve_object;
using ::testing::HasSubstr;

Limits quick() {
  Limits limits;
  limits.first_byte = limits.stall = 300ms;
  limits.overall = 20s;
  limits.backoff_base = limits.backoff_cap = 1ms;
  limits.attempts = 4;
  return limits;
}

std::string text_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string content() {
  std::string text;
  for (int i = 0; text.size() < 200'000; ++i) text += std::to_string(i) + ",";
  return text;
}

/// Reads the object of a server that does `first` to the first request and is right afterwards.
class OnceWrong {
 public:
  explicit OnceWrong(std::function<void(HttpAnswer&)> first)
      : server_([this, first](const HttpRequest& request) {
          HttpAnswer answer = serve_object(request, content_);
          if (!std::exchange(seen_, true)) first(answer);
          return answer;
        }),
        store_(parse_url(server_.url() + "/folder"), quick()) {}

  void expect_whole_read_with_second_range(const std::string& range) {
    EXPECT_EQ(text_of(*store_.get("key")), content_);
    const auto requests = server_.requests();
    ASSERT_EQ(requests.size(), 2u);
    EXPECT_EQ(requests[1].headers.get("range"), range);
    EXPECT_EQ(requests[1].headers.get("if-match"), range.empty() ? "" : "\"v1\"");
  }
  HttpStore& store() { return store_; }
  HttpFaultServer& server() { return server_; }
  const std::string& text() const { return content_; }

 private:
  std::string content_ = content();
  bool seen_ = false;
  HttpFaultServer server_;
  HttpStore store_;
};

TEST(HttpFaults, ACutBodyIsResumedWhereItBroke) {
  OnceWrong([](HttpAnswer& answer) {
    answer.cut_after = 70'000;
  }).expect_whole_read_with_second_range("bytes=70000-");
}

TEST(HttpFaults, AStalledBodyIsResumedWhereItStopped) {
  OnceWrong([](HttpAnswer& answer) {
    answer.stall_after = 50'000;
  }).expect_whole_read_with_second_range("bytes=50000-");
}

TEST(HttpFaults, ASlowFirstByteIsAskedForAgain) {
  OnceWrong([](HttpAnswer& answer) {
    answer.silent = true;
  }).expect_whole_read_with_second_range("");
}

TEST(HttpFaults, AConnectionThatEndsIsMadeAgain) {
  OnceWrong([](HttpAnswer& answer) {
    answer.close_at_once = true;
  }).expect_whole_read_with_second_range("");
}

TEST(HttpFaults, UnavailableIsRetriedAfterWhatTheServerSays) {
  OnceWrong reading([](HttpAnswer& answer) {
    answer = {};
    answer.status = 503;
    answer.headers = {{"Retry-After", "1"}};
  });
  const auto start = Clock::now();
  reading.expect_whole_read_with_second_range("");
  EXPECT_GE(Clock::now() - start, 1s);
}

TEST(HttpFaults, WrongRangesAndLengthsAreNeverTaken) {
  const std::vector<std::function<void(HttpAnswer&)>> mistakes = {
      [](HttpAnswer& answer) { answer.headers[2].second = "bytes 11-20/200000"; },
      [](HttpAnswer& answer) { answer.headers.erase(answer.headers.begin() + 2); },
      [](HttpAnswer& answer) { answer.status = 200; },
      [](HttpAnswer& answer) { answer.body += "more"; },
      [](HttpAnswer& answer) { answer.announced = 100; },
  };
  for (size_t i = 0; i < mistakes.size(); ++i) {
    OnceWrong reading(mistakes[i]);
    EXPECT_EQ(text_of(*reading.store().get_range("key", 10, 10)), reading.text().substr(10, 10))
        << "mistake " << i;
    EXPECT_EQ(reading.server().requests().size(), 2u) << "mistake " << i;
  }
}

TEST(HttpFaults, AnObjectThatChangesHalfwayIsReadFromTheStart) {
  int requests = 0;
  const std::string old_text(100'000, 'o'), new_text(90'000, 'n');
  HttpFaultServer server([&](const HttpRequest& request) {
    HttpAnswer answer = ++requests == 1 ? serve_object(request, old_text, "\"old\"")
                                        : serve_object(request, new_text, "\"new\"");
    if (requests == 1) answer.cut_after = 40'000;
    return answer;
  });
  HttpStore store(parse_url(server.url()), quick());
  EXPECT_EQ(text_of(*store.get("key")), new_text);
}

TEST(HttpFaults, PartsOfALargeReadAreOfOneVersion) {
  const std::string text(1 << 20, 'x');
  std::atomic<int> reads{0};
  HttpFaultServer server([&](const HttpRequest& request) {
    // Another writer comes between the second part and the third.
    const bool late = request.method == "GET" && ++reads > 2;
    return serve_object(request, text, late ? "\"new\"" : "\"old\"");
  });
  Limits limits = quick();
  limits.part_bytes = 128 << 10;
  HttpStore store(parse_url(server.url()), limits);
  try {
    store.get_range("key", 0, text.size());
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kIo);
    EXPECT_THAT(e.what(), HasSubstr("changed"));
  }
}

TEST(HttpFaults, LargeReadsAreCutIntoParallelRanges) {
  const std::string text = content();
  HttpFaultServer server([&](const HttpRequest& request) { return serve_object(request, text); });
  Limits limits = quick();
  limits.part_bytes = 10'000;
  HttpStore store(parse_url(server.url()), limits);
  EXPECT_EQ(text_of(*store.get_range("key", 5, 150'000)), text.substr(5, 150'000));
  EXPECT_EQ(server.requests().size(), 16u);  // one HEAD, 15 ranges
  EXPECT_THROW(store.get_range("key", 5, 1ull << 60), Error);
}

TEST(HttpFaults, GivingUpSaysWhatWhereAndHowOften) {
  HttpFaultServer server([](const HttpRequest&) {
    HttpAnswer answer;
    answer.status = 503;
    return answer;
  });
  HttpStore store(parse_url(server.url() + "/f?token=secret"), quick());
  try {
    store.get_range("k", 3, 4);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kIo);
    EXPECT_EQ(e.reaction(), Reaction::kRetry);
    EXPECT_THAT(e.what(), HasSubstr(server.url() + "/f/k"));
    EXPECT_THAT(e.what(), HasSubstr("503"));
    EXPECT_THAT(e.what(), HasSubstr("3-6"));
    EXPECT_THAT(e.what(), HasSubstr("attempts 4"));
    EXPECT_THAT(e.what(), ::testing::Not(HasSubstr("secret")));
  }
  EXPECT_EQ(server.requests().size(), 4u);
  EXPECT_EQ(server.requests()[0].target, "/f/k?token=secret");
}

TEST(HttpFaults, AnHourOf503IsNeverAMissingObject) {
  HttpFaultServer server([](const HttpRequest&) {
    HttpAnswer answer;
    answer.status = 500;
    return answer;
  });
  HttpStore store(parse_url(server.url()), quick());
  EXPECT_THROW(store.get("k"), Error);
  EXPECT_THROW(store.head("k"), Error);
  EXPECT_THROW(store.get_suffix("k", 4), Error);
}

TEST(HttpFaults, NobodyThereAndNoSuchHostAreErrorsSoon) {
  uint16_t port = 0;
  { runtime::FileDescriptor closed = runtime::listen_tcp("127.0.0.1", port); }
  for (const std::string& url :
       {"http://127.0.0.1:" + std::to_string(port), std::string("http://no-such-host.invalid")}) {
    HttpStore store(parse_url(url), quick());
    try {
      store.get("k");
      ADD_FAILURE() << url;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kIo) << e.what();
    }
  }
}

TEST(HttpFaults, RedirectsAreFollowedAndLoopsEnd) {
  HttpFaultServer target([](const HttpRequest& request) { return serve_object(request, "there"); });
  HttpFaultServer server([&](const HttpRequest& request) {
    HttpAnswer answer;
    answer.status = 307;
    if (request.target == "/loop") answer.headers = {{"Location", "/loop"}};
    if (request.target == "/away") answer.headers = {{"Location", target.url() + "/x"}};
    return answer;
  });
  HttpStore store(parse_url(server.url()), quick());
  EXPECT_EQ(text_of(*store.get("away")), "there");
  EXPECT_THROW(store.get("loop"), Error);
  EXPECT_THROW(store.get("nowhere"), Error);  // a 307 without a Location is no object
}

TEST(HttpFaults, AnEndlessHeaderIsRefused) {
  HttpFaultServer server([](const HttpRequest&) {
    HttpAnswer answer;
    for (int i = 0; i < 1000; ++i) answer.headers.emplace_back("X-" + std::to_string(i), "y");
    return answer;
  });
  HttpStore store(parse_url(server.url()), quick());
  EXPECT_THROW(store.get("k"), Error);
}

TEST(HttpStore, ManyReadsAreJoinedAndSurviveFaults) {
  const std::string text = content();
  int number = 0;
  HttpFaultServer server([&](const HttpRequest& request) {
    HttpAnswer answer;
    answer.status = 404;
    if (request.target == "/absent") return answer;
    answer.status = 304;
    if (request.headers.get("if-none-match") == "\"v1\"") return answer;
    answer = serve_object(request, text);
    if (number++ == 0) answer.cut_after = 100;
    return answer;
  });
  HttpStore store(parse_url(server.url()), quick());
  std::vector<ObjectRead> reads;
  for (uint64_t i = 0; i < 50; ++i)
    reads.push_back({.key = "a", .offset = i * 1000, .length = 1000});
  reads.push_back({.key = "absent"});
  reads.push_back({.key = "b", .unless_etag = "\"v1\""});
  reads.push_back({.key = "b", .offset = 10, .length = 5, .etag = "\"v0\""});
  reads.push_back({.key = "b", .length = 6, .from_end = true});
  std::vector<std::string> got(reads.size());
  store.read_many(reads, {.parallel = 8}, [&](size_t i, const ObjectFound& found) {
    got[i] = found.state == ObjectFound::State::kRead
                 ? text_of({found.bytes.begin(), found.bytes.end()})
             : found.state == ObjectFound::State::kMissing   ? "missing"
             : found.state == ObjectFound::State::kUnchanged ? "unchanged"
                                                             : "changed";
  });
  for (size_t i = 0; i < 50; ++i) EXPECT_EQ(got[i], text.substr(i * 1000, 1000));
  EXPECT_EQ(got[50], "missing");
  EXPECT_EQ(got[51], "unchanged");
  EXPECT_EQ(got[52], "changed");
  EXPECT_EQ(got[53], text.substr(text.size() - 6));
  EXPECT_LE(server.requests().size(), 6u);
}

TEST(HttpStore, RequestsOfManyReadsAreInFlightTogether) {
  constexpr int kReads = 12;
  std::atomic<int> asked{0};
  HttpFaultServer server([&](const HttpRequest& request) {
    ++asked;
    return serve_object(request, "x" + request.target);
  });
  HttpStore store(parse_url(server.url()), quick());
  std::vector<ObjectRead> reads;
  for (int i = 0; i < kReads; ++i) reads.push_back({.key = std::to_string(i)});
  bool first = true;
  int seen = 0;
  store.read_many(reads, {.parallel = kReads}, [&](size_t i, const ObjectFound& found) {
    // While the first answer is looked at, the others come in all by themselves.
    if (std::exchange(first, false))
      while (asked < kReads) std::this_thread::yield();
    EXPECT_EQ(text_of({found.bytes.begin(), found.bytes.end()}), "x/" + std::to_string(i));
    ++seen;
  });
  EXPECT_EQ(seen, kReads);
}

TEST(HttpStore, ReadsAndRefusesToWriteOrList) {
  HttpFaultServer server([](const HttpRequest& request) {
    HttpAnswer missing;
    missing.status = 404;
    return request.target == "/f/a%20b" ? serve_object(request, "0123456789") : missing;
  });
  HttpStore store(parse_url(server.url() + "/f/"), quick());
  EXPECT_EQ(store.uri(), server.url() + "/f");
  EXPECT_EQ(text_of(*store.get("a b")), "0123456789");
  EXPECT_EQ(text_of(*store.get_suffix("a b", 3)), "789");
  EXPECT_EQ(store.head("a b")->size, 10u);
  EXPECT_FALSE(store.get("absent"));
  EXPECT_FALSE(store.head("absent"));
  EXPECT_THROW(store.get_range("a b", 8, 3), Error);
  EXPECT_THROW(store.list(""), Error);
  EXPECT_THROW(store.put("k", {}), Error);
  EXPECT_THROW(store.start_upload("k"), Error);
}

TEST(HttpStore, KeepsItsConnections) {
  HttpFaultServer server([](const HttpRequest& request) { return serve_object(request, "x"); });
  HttpStore store(parse_url(server.url()), quick());
  for (int i = 0; i < 50; ++i) store.get("k");
  EXPECT_LE(server.connection_count(), 4u);  // one per reactor
}

TEST(HttpStore, WorksInAChildAfterAFork) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer knows no threads after a fork";
#endif
  HttpFaultServer server([](const HttpRequest& request) { return serve_object(request, "x"); });
  HttpStore store(parse_url(server.url()), quick());
  ASSERT_TRUE(store.get("k"));
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      ::_exit(store.get("k") ? 0 : 1);
    } catch (...) {
      ::_exit(2);
    }
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(store.get("k"));
}

}  // namespace
}  // namespace craton::store::http
