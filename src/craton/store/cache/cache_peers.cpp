#include "craton/store/cache/cache_peers.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "craton/base/error.h"
#include "craton/base/log.h"
#include "craton/store/http/http_store.h"
#include "craton/store/http/plain_service.h"

namespace craton::store {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kLeftAlone = 30s;
constexpr size_t kMostWaiting = 4096;
constexpr size_t kAsked = 2;  ///< peers for one entry
constexpr size_t kParallel = 32;
constexpr bool kNoProxy = true;  ///< nodes of one cluster

http::Limits peer_limits() {
  http::Limits limits;
  limits.connect = 500ms;
  limits.first_byte = 1000ms;
  limits.stall = 2000ms;
  limits.overall = 10s;
  limits.attempts = 1;
  return limits;
}

http::Url url_of(const std::string& text, const std::string& token) {
  http::Url url = http::parse_url(text);
  if (!token.empty()) url.query = "token=" + http::percent_encode(token);
  return url;
}

}  // namespace

/// Another node's server.
class CachePeers::Peer {
 public:
  Peer(const std::string& text, const std::string& token)
      : name_(text),
        store_(url_of(text, token), peer_limits(), kNoProxy),
        client_(std::make_shared<http::PlainService>(url_of(text, token), kNoProxy),
                peer_limits()) {}

  const std::string& name() const { return name_; }

  /// Whether it can be asked now, and is another node than the one whose cache has this id.
  bool is_there(const std::string& own_id) {
    const std::lock_guard lock(mutex_);
    if (Clock::now() < not_before_) return false;
    if (is_other_) return *is_other_;
    const bool answered = try_to([&] {
      const auto id = store_.get("v1/id");
      if (!id) fail(ErrorCode::kNotFound, "{} is no cache of this program", name_);
      is_other_ = std::string(reinterpret_cast<const char*>(id->data()), id->size()) != own_id;
    });
    if (!answered) not_before_ = Clock::now() + kLeftAlone;
    return answered && *is_other_;
  }

  void fetch(const std::vector<std::string>& names,
             const std::function<void(size_t, std::span<const std::byte>)>& sink) {
    std::vector<ObjectRead> reads;
    for (const std::string& name : names) reads.push_back({.key = "v1/" + name});
    attempt([&] {
      store_.read_many(reads, {.parallel = kParallel}, [&](size_t i, const ObjectFound& found) {
        if (found.state == ObjectFound::State::kRead) sink(i, found.bytes);
      });
    });
  }

  bool send(const std::string& name, std::span<const std::byte> image) {
    return attempt([&] {
      http::Call call;
      call.request.method = "PUT";
      call.request.url.path = "/v1/" + name;
      call.request.body = image;
      call.what = "cannot copy an entry of the cache to " + name_;
      client_.run(call);
    });
  }

 private:
  template <typename Body>
  bool attempt(Body body) {
    if (try_to(body)) return true;
    const std::lock_guard lock(mutex_);
    not_before_ = Clock::now() + kLeftAlone;
    return false;
  }
  template <typename Body>
  bool try_to(Body body) {
    try {
      body();
      return true;
    } catch (const Error& e) {
      log_warning("the cache of another node is left alone for {} s: {}", kLeftAlone.count(),
                  e.what());
      return false;
    }
  }

  const std::string name_;
  http::HttpStore store_;
  http::Client client_;
  std::mutex mutex_;
  std::optional<bool> is_other_;
  Clock::time_point not_before_{};
};

CachePeers::CachePeers(std::shared_ptr<NodeCache> cache, const CachePeersOptions& options)
    : cache_(std::move(cache)) {
  for (const std::string& url : options.urls)
    peers_.push_back(std::make_unique<Peer>(url, options.token));
  thread_ = std::thread([this] { send_copies(); });
}

CachePeers::~CachePeers() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::vector<CachePeers::Peer*> CachePeers::order_of(std::string_view name) {
  std::vector<std::pair<uint64_t, Peer*>> ranked;
  for (const auto& peer : peers_) {
    const std::string both = std::string(name) + peer->name();
    ranked.emplace_back(XXH3_64bits(both.data(), both.size()), peer.get());
  }
  std::ranges::sort(ranked, std::greater<>());
  std::vector<Peer*> out;
  for (const auto& [rank, peer] : ranked)
    if (peer->is_there(cache_->id())) out.push_back(peer);
  return out;
}

void CachePeers::fetch(const std::vector<std::string>& names) {
  std::vector<std::vector<Peer*>> orders;
  for (const std::string& name : names) orders.push_back(order_of(name));
  std::vector<char> found(names.size(), 0);
  for (size_t k = 0; k < kAsked; ++k) {
    std::map<Peer*, std::vector<size_t>> plan;
    for (size_t n = 0; n < names.size(); ++n)
      if (found[n] == 0 && k < orders[n].size()) plan[orders[n][k]].push_back(n);
    for (const auto& [peer, wanted] : plan) {
      std::vector<std::string> asked;
      for (const size_t n : wanted) asked.push_back(names[n]);
      peer->fetch(asked, [&, &wanted = wanted](size_t i, std::span<const std::byte> image) {
        if (cache_->put_image(names[wanted[i]], image)) found[wanted[i]] = 1;
      });
    }
  }
  const std::lock_guard lock(mutex_);
  counters_.fetched += static_cast<uint64_t>(std::ranges::count(found, 1));
}

void CachePeers::copy(const std::string& name) {
  const std::lock_guard lock(mutex_);
  if (waiting_.size() >= kMostWaiting) {
    ++counters_.dropped;
    return;
  }
  waiting_.push_back(name);
  changed_.notify_all();
}

void CachePeers::wait_for_copies() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return waiting_.empty() && !sending_; });
}

void CachePeers::send_copies() {
  std::unique_lock lock(mutex_);
  for (;;) {
    sending_ = false;
    changed_.notify_all();
    changed_.wait(lock, [&] { return stop_ || !waiting_.empty(); });
    if (stop_) return;
    const std::string name = waiting_.front();
    waiting_.pop_front();
    sending_ = true;
    lock.unlock();
    bool sent = false;
    const auto order = order_of(name);
    const auto entry = order.empty() ? nullptr : cache_->find_name(name);
    if (entry) sent = order.front()->send(name, entry->image());
    lock.lock();
    ++(sent ? counters_.copied : counters_.dropped);
  }
}

CachePeersCounters CachePeers::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

}  // namespace craton::store
