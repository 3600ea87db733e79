// Names that resolve to another address meanwhile, or not at all for a while. The resolver of this
// test program is its own: getaddrinfo here comes before the C library's.

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netdb.h>

#include <mutex>
#include <string>
#include <vector>

#include "craton/store/http/http_store.h"
#include "craton/testing/http_fault_server.h"

namespace {

constexpr const char* kName = "bucket.moving.test";

/// What the name resolves to, call by call; the last one stays.
struct Resolver {
  std::mutex mutex;
  std::vector<std::string> answers;  ///< addresses; "" is "try again later"
  size_t asked = 0;
} resolver;

}  // namespace

extern "C" int getaddrinfo(const char* node, const char* service, const addrinfo* hints,
                           addrinfo** result) {
  using Function = int (*)(const char*, const char*, const addrinfo*, addrinfo**);
  static const auto real = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  if (node == nullptr || std::string(node) != kName) return real(node, service, hints, result);
  std::string address;
  {
    const std::lock_guard lock(resolver.mutex);
    address = resolver.answers.at(std::min(resolver.asked++, resolver.answers.size() - 1));
  }
  if (address.empty()) return EAI_AGAIN;
  return real(address.c_str(), service, hints, result);
}

namespace craton::store::http {
namespace {

using namespace std::chrono_literals;
using craton::testing::HttpFaultServer;
using craton::testing::HttpRequest;

class MovingName : public ::testing::Test {
 protected:
  std::string read(std::vector<std::string> answers) {
    {
      const std::lock_guard lock(resolver.mutex);
      resolver.answers = std::move(answers);
      resolver.asked = 0;
    }
    Limits limits;
    limits.connect = 1000ms;
    limits.backoff_base = limits.backoff_cap = 1ms;
    limits.attempts = 4;
    HttpStore store(
        parse_url("http://" + std::string(kName) + ":" + std::to_string(server_.port())), limits);
    const auto bytes = store.get("key");
    return bytes ? std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size()) : "";
  }
  static size_t asked() {
    const std::lock_guard lock(resolver.mutex);
    return resolver.asked;
  }

  HttpFaultServer server_{
      [](const HttpRequest& request) { return craton::testing::serve_object(request, "content"); }};
};

TEST_F(MovingName, ADeadAddressIsNotKeptBeyondOneAttempt) {
  // Nobody listens on 127.0.0.2: it is refused, and the name asked for again.
  EXPECT_EQ(read({"127.0.0.2", "127.0.0.1"}), "content");
  EXPECT_EQ(asked(), 2u);
}

TEST_F(MovingName, AResolverThatFailsForAWhileIsAskedAgain) {
  EXPECT_EQ(read({"", "", "127.0.0.1"}), "content");
  EXPECT_EQ(asked(), 3u);
}

TEST_F(MovingName, OneThatKeepsFailingIsAnErrorWithTheHost) {
  try {
    read({""});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kIo);
    EXPECT_THAT(e.what(), ::testing::HasSubstr(kName));
  }
  EXPECT_EQ(asked(), 4u);
}

}  // namespace
}  // namespace craton::store::http
