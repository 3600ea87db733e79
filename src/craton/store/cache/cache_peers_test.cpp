#include "craton/store/cache/cache_peers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <map>

#include "craton/base/error.h"
#include "craton/base/philox.h"
#include "craton/runtime/socket.h"
#include "craton/store/cache/cache_server.h"
#include "craton/store/cache/cached_store.h"
#include "craton/store/memory_store.h"
#include "craton/store/wrapped_store.h"
#include "craton/testing/http_fault_server.h"

namespace craton::store {
namespace {

using craton::testing::HttpAnswer;
using craton::testing::HttpFaultServer;
using craton::testing::HttpRequest;
using std::chrono::system_clock;

/// A bucket that counts what it is asked for.
class Bucket final : public WrappedStore {
 public:
  explicit Bucket(std::shared_ptr<ObjectStore> base) : WrappedStore(std::move(base)) {}
  std::optional<Bytes> get(std::string_view key) override { return base_->get(key); }
  std::optional<Bytes> get_range(std::string_view key, uint64_t o, uint64_t n) override {
    return base_->get_range(key, o, n);
  }
  std::optional<Bytes> get_suffix(std::string_view key, uint64_t n) override {
    return base_->get_suffix(key, n);
  }
  void read_many(std::span<const ObjectRead> reads, const ReadLimits& limits,
                 const ReadSink& sink) override {
    base_->read_many(reads, limits, [&](size_t i, const ObjectFound& found) {
      ++asked;
      bytes += found.bytes.size();
      sink(i, found);
    });
  }
  std::atomic<uint64_t> asked{0}, bytes{0};
};

/// A node: its cache, and the server that gives it to others.
struct Node {
  runtime::TemporaryDirectory folder;
  std::shared_ptr<NodeCache> cache;
  std::unique_ptr<CacheServer> server;

  explicit Node(system_clock::time_point trusted_since, const std::string& token = "")
      : cache(NodeCache::open({folder.path(), 64 << 20, trusted_since})) {
    CacheServerOptions options;
    options.token = token;
    server = std::make_unique<CacheServer>(cache, options);
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(server->port()); }
};

class CachePeersTest : public ::testing::Test {
 protected:
  CachePeersTest() {
    static int counter = 0;
    bucket_ =
        std::make_shared<Bucket>(MemoryStore::open("memory://peers-" + std::to_string(++counter)));
    for (int i = 0; i < kObjects; ++i) bucket_->put(key(i), content(i));
    for (auto& node : nodes_) node = std::make_unique<Node>(start_);
    for (const auto& node : nodes_) urls_.push_back(node->url());
  }
  static std::string key(int i) { return "chunk/" + std::to_string(i); }
  static Bytes content(int i, char c = 'x') {
    const std::string text = std::string(5000, c) + std::to_string(i);
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
  }
  /// The entry's name, from whatever node has it: the key of entries is the store's own business.
  std::string name_of(int i) const {
    return NodeCache::name_of(
        fmt::format("{}\n{}\n0 {} \n", bucket_->identity(), key(i), ObjectRead::kWhole));
  }
  std::shared_ptr<CachePeers> peers_of(const Node& node, std::vector<std::string> urls) {
    return std::make_shared<CachePeers>(node.cache, CachePeersOptions{std::move(urls), ""});
  }
  /// Reads all objects as a worker of this node would.
  void read_all(const Node& node, const std::shared_ptr<CachePeers>& peers, char c = 'x') {
    CachedStore store(bucket_, {node.cache, CacheForm::kStored, peers});
    std::vector<ObjectRead> reads;
    for (int i = 0; i < kObjects; ++i) reads.push_back({.key = key(i)});
    int seen = 0;
    store.read_many(reads, {}, [&](size_t i, const ObjectFound& found) {
      if (found.keep) found.keep(found.bytes);
      seen += std::ranges::equal(found.bytes, content(static_cast<int>(i), c));
    });
    EXPECT_EQ(seen, kObjects);
    if (peers) peers->wait_for_copies();
  }

  static constexpr int kObjects = 40;
  const system_clock::time_point start_ = system_clock::now() - std::chrono::seconds(1);
  std::shared_ptr<Bucket> bucket_;
  std::unique_ptr<Node> nodes_[3];
  std::vector<std::string> urls_;
};

TEST_F(CachePeersTest, WhatOneNodeHasFetchedNoOtherAsksTheStoreFor) {
  const auto first = peers_of(*nodes_[0], urls_);
  read_all(*nodes_[0], first);
  EXPECT_EQ(bucket_->asked, uint64_t{kObjects});
  EXPECT_EQ(first->counters().copied, uint64_t{kObjects});
  // Each entry has its second copy on one of the others, and both have some.
  const uint64_t second = nodes_[1]->cache->counters().stored,
                 third = nodes_[2]->cache->counters().stored;
  EXPECT_EQ(second + third, uint64_t{kObjects});
  EXPECT_GT(second, 0u);
  EXPECT_GT(third, 0u);
  for (const int n : {1, 2}) read_all(*nodes_[n], peers_of(*nodes_[n], urls_));
  EXPECT_EQ(bucket_->asked, uint64_t{kObjects});
}

TEST_F(CachePeersTest, TheLossOfANodeLosesNothing) {
  read_all(*nodes_[0], peers_of(*nodes_[0], urls_));
  nodes_[0]->server.reset();
  read_all(*nodes_[1], peers_of(*nodes_[1], urls_));
  EXPECT_EQ(bucket_->asked, uint64_t{kObjects});
}

TEST_F(CachePeersTest, ANewNodeStartsFromItsPeers) {
  read_all(*nodes_[0], peers_of(*nodes_[0], {urls_[0], urls_[1]}));
  nodes_[0]->server.reset();
  const Node fresh(start_);
  const auto peers = peers_of(fresh, urls_);
  read_all(fresh, peers);
  EXPECT_EQ(bucket_->asked, uint64_t{kObjects});
  EXPECT_EQ(peers->counters().fetched, uint64_t{kObjects});
}

TEST_F(CachePeersTest, WithoutAnyPeerTheStoreIsAsked) {
  for (auto& node : nodes_) node->server.reset();
  const auto peers = peers_of(*nodes_[0], urls_);
  read_all(*nodes_[0], peers);
  EXPECT_EQ(bucket_->asked, uint64_t{kObjects});
  EXPECT_EQ(peers->counters().copied, 0u);
  EXPECT_EQ(peers->counters().dropped, uint64_t{kObjects});
}

TEST_F(CachePeersTest, ObjectsThatHaveChangedAreReadAnew) {
  read_all(*nodes_[0], peers_of(*nodes_[0], urls_));
  for (int i = 0; i < kObjects; ++i) bucket_->put(key(i), content(i, 'y'));
  // A job that began later: what its peers have was compared before that.
  const auto later = system_clock::now() + std::chrono::hours(1);
  const Node node(later);
  read_all(node, peers_of(node, urls_), 'y');
  // And where nothing has changed, entries of peers are compared and no bytes are read.
  const uint64_t bytes = bucket_->bytes;
  for (int i = 0; i < kObjects; ++i) EXPECT_TRUE(node.cache->find_name(name_of(i)));
  const Node third(later);
  read_all(third, peers_of(third, {node.url()}), 'y');
  EXPECT_EQ(bucket_->bytes, bytes);
}

TEST_F(CachePeersTest, WhatAPeerGivesIsCheckedLikeADiskThatLies) {
  read_all(*nodes_[0], nullptr);
  const auto good = nodes_[0]->cache->find_name(name_of(0));
  ASSERT_TRUE(good);
  const std::string image(reinterpret_cast<const char*>(good->image().data()),
                          good->image().size());
  int asked = 0;
  HttpFaultServer liar([&](const HttpRequest& request) {
    HttpAnswer answer;
    answer.body = image;  // of another entry, as often as not
    if (request.target == "/v1/id") answer.body = std::string(32, 'a');
    switch (++asked % 6) {
      case 1:
        if (request.target != "/v1/id") answer.body[answer.body.size() / 2] ^= 1;
        break;
      case 2:
        answer.body.resize(answer.body.size() / 2);
        break;
      case 3:
        answer.status = 500;
        break;
      case 4:
        answer.cut_after = 100;
        break;
      case 5:
        answer.body = "<html>a proxy's page</html>";
        break;
    }
    return answer;
  });
  const Node node(start_);
  const uint64_t before = bucket_->asked;
  read_all(node, peers_of(node, {liar.url()}));
  EXPECT_GE(bucket_->asked, before + kObjects - 1);
}

TEST_F(CachePeersTest, OnlyWhoKnowsTheTokenIsServed) {
  const Node guarded(start_, "open sesame");
  read_all(*nodes_[0], nullptr);
  const auto names = std::vector<std::string>{name_of(0), name_of(1)};
  CachePeers stranger(nodes_[0]->cache, {{guarded.url()}, ""});
  stranger.copy(names[0]);
  stranger.wait_for_copies();
  EXPECT_EQ(guarded.cache->counters().stored, 0u);
  CachePeers friend_of(nodes_[0]->cache, {{guarded.url()}, "open sesame"});
  friend_of.copy(names[0]);
  friend_of.wait_for_copies();
  EXPECT_EQ(guarded.cache->counters().stored, 1u);
  CacheServerOptions open;
  open.host = "";
  EXPECT_THROW(CacheServer(guarded.cache, open), Error);
}

/// Bytes that are no requests end a connection and nothing else.
TEST_F(CachePeersTest, TheServerOutlivesWhatItIsSent) {
  read_all(*nodes_[0], nullptr);
  const Philox random(4, RandomPurpose::kTest);
  const std::string valid =
      "PUT /v1/" + name_of(0) + " HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc";
  std::vector<std::string> requests = {
      "GET /v1/../../etc/passwd HTTP/1.1\r\n\r\n",
      "GET /v1/id\r\n\r\n",
      "\r\n\r\n",
      "PUT /v1/" + std::string(32, 'f') + " HTTP/1.1\r\nContent-Length: 99999999999999\r\n\r\n",
      "PUT /v1/x HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
      std::string(20'000, 'A')};
  for (uint64_t n = 0; n < 200; ++n) {
    std::string mutated = valid;
    for (uint64_t k = 0; k < 3; ++k)
      mutated[random.below(8 * n + k, mutated.size())] =
          static_cast<char>(random.bits(8 * n + 4 + k));
    requests.push_back(mutated + "\r\n\r\n");
  }
  for (const std::string& request : requests) {
    int error = 0;
    const auto socket = runtime::connect_tcp("127.0.0.1", nodes_[1]->server->port(), error);
    ASSERT_TRUE(socket.valid());
    pollfd ready{socket.get(), POLLOUT, 0};
    ::poll(&ready, 1, 1000);
    runtime::send_some(socket.get(), std::as_bytes(std::span(request)));
  }
  EXPECT_EQ(nodes_[1]->cache->counters().stored, 0u);
  read_all(*nodes_[2], peers_of(*nodes_[2], {urls_[0]}));  // the others go on
  CachePeers peers(nodes_[0]->cache, {{urls_[1]}, ""});
  peers.copy(name_of(0));
  peers.wait_for_copies();
  EXPECT_EQ(nodes_[1]->cache->counters().stored, 1u);
}

}  // namespace
}  // namespace craton::store
