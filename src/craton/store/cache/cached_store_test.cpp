#include "craton/store/cache/cached_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "craton/store/memory_store.h"
#include "craton/testing/object_store_contract.h"

namespace craton::store {
namespace {

using std::chrono::system_clock;
using testing::bytes_of;
using testing::text_of;

/// Counts what is asked of another store.
class CountingStore final : public ObjectStore {
 public:
  explicit CountingStore(std::shared_ptr<ObjectStore> base) : base_(std::move(base)) {}
  std::string uri() const override { return base_->uri(); }
  std::optional<Bytes> get(std::string_view key) override { return base_->get(key); }
  std::optional<Bytes> get_range(std::string_view key, uint64_t o, uint64_t n) override {
    return base_->get_range(key, o, n);
  }
  std::optional<Bytes> get_suffix(std::string_view key, uint64_t n) override {
    return base_->get_suffix(key, n);
  }
  std::optional<ObjectInfo> head(std::string_view key) override { return base_->head(key); }
  std::vector<ObjectInfo> list(std::string_view prefix) override { return base_->list(prefix); }
  void put(std::string_view key, std::span<const std::byte> b) override { base_->put(key, b); }
  bool put_if_absent(std::string_view key, std::span<const std::byte> b) override {
    return base_->put_if_absent(key, b);
  }
  std::unique_ptr<Upload> start_upload(std::string_view key) override {
    return base_->start_upload(key);
  }
  void remove(std::string_view key) override { base_->remove(key); }
  void read_many(std::span<const ObjectRead> reads, const ReadLimits& limits,
                 const ReadSink& sink) override {
    base_->read_many(reads, limits, [&](size_t i, const ObjectFound& found) {
      ++asked;
      fetched += found.bytes.size();
      if (before_answer) before_answer();
      ObjectFound given = found;
      if (hides_etags) given.etag = {};
      sink(i, given);
    });
  }

  std::atomic<uint64_t> asked{0}, fetched{0};
  std::function<void()> before_answer;
  bool hides_etags = false;

 private:
  std::shared_ptr<ObjectStore> base_;
};

std::shared_ptr<ObjectStore> fresh_memory() {
  static std::atomic<int> counter{0};
  return MemoryStore::open("memory://cached-" + std::to_string(++counter));
}

struct CachedFixture {
  runtime::TemporaryDirectory folder;
  std::shared_ptr<ObjectStore> make() {
    // Everything is compared with the store before it is used.
    auto cache =
        NodeCache::open({folder.path(), 64 << 20, system_clock::now() + std::chrono::hours(1)});
    return std::make_shared<CachedStore>(fresh_memory(), CachePolicy{cache});
  }
};

class CachedStoreTest : public ::testing::Test {
 protected:
  /// Another process of the node, as far as the cache can tell.
  std::shared_ptr<CachedStore> open(system_clock::time_point trusted_since,
                                    CacheForm form = CacheForm::kStored) {
    cache_ = NodeCache::open({folder_.path(), 64 << 20, trusted_since});
    return std::make_shared<CachedStore>(base_, CachePolicy{cache_, form});
  }
  runtime::TemporaryDirectory folder_;
  std::shared_ptr<CountingStore> base_ = std::make_shared<CountingStore>(fresh_memory());
  std::shared_ptr<NodeCache> cache_;
  const system_clock::time_point start_ = system_clock::now() - std::chrono::seconds(1);
};

TEST_F(CachedStoreTest, WhatOneHasReadTheOthersFind) {
  base_->put("a", bytes_of("0123456789"));
  const auto one = open(start_), other = open(start_);
  EXPECT_EQ(text_of(*one->get("a")), "0123456789");
  EXPECT_EQ(text_of(*one->get_range("a", 2, 3)), "234");
  EXPECT_EQ(text_of(*one->get_suffix("a", 2)), "89");
  EXPECT_EQ(base_->asked, 3u);
  EXPECT_EQ(text_of(*other->get("a")), "0123456789");
  EXPECT_EQ(text_of(*other->get_range("a", 2, 3)), "234");
  EXPECT_EQ(text_of(*other->get_suffix("a", 2)), "89");
  EXPECT_EQ(base_->asked, 3u);
  EXPECT_FALSE(other->get("absent"));
}

TEST_F(CachedStoreTest, ALaterJobAsksWhetherTheObjectIsTheSame) {
  base_->put("a", bytes_of("old"));
  open(start_)->get("a");
  const uint64_t fetched = base_->fetched;
  const auto later = system_clock::now() + std::chrono::milliseconds(50);
  std::this_thread::sleep_until(later);  // the clock of the entry's note, not a wait for anything
  const auto second = open(later);
  EXPECT_EQ(text_of(*second->get("a")), "old");
  EXPECT_EQ(base_->fetched, fetched);  // asked, nothing fetched
  EXPECT_EQ(base_->asked, 2u);
  EXPECT_EQ(text_of(*second->get("a")), "old");
  EXPECT_EQ(base_->asked, 2u);  // asked once
  base_->put("a", bytes_of("new one"));
  const auto third = open(system_clock::now() + std::chrono::hours(1));
  EXPECT_EQ(text_of(*third->get("a")), "new one");
  base_->remove("a");
  EXPECT_FALSE(third->get("a"));
}

TEST_F(CachedStoreTest, ARangeOfAVersionIsNeverAnotherVersions) {
  base_->put("a", bytes_of("version 1"));
  const std::string first = base_->head("a")->etag;
  const auto store = open(start_);
  const std::vector<ObjectRead> reads = {{.key = "a", .offset = 8, .length = 1, .etag = first}};
  std::string seen;
  const auto sink = [&](size_t, const ObjectFound& found) {
    if (found.keep) found.keep(found.bytes);
    seen = found.state == ObjectFound::State::kRead ? text_of(found.bytes) : "changed";
  };
  store->read_many(reads, {}, sink);
  EXPECT_EQ(seen, "1");
  base_->put("a", bytes_of("version 2"));
  std::vector<ObjectRead> second = reads;
  second[0].etag = base_->head("a")->etag;
  store->read_many(second, {}, sink);
  EXPECT_EQ(seen, "2");
  store->read_many(reads, {}, sink);
  EXPECT_EQ(seen, "changed");
}

TEST_F(CachedStoreTest, PreparedFormsAreGivenBackAsTheyWereKept) {
  base_->put("a", bytes_of("raw"));
  const auto store = open(start_, CacheForm::kDecoded);
  EXPECT_EQ(store->kept_form(), "decoded");
  const std::vector<ObjectRead> reads = {{.key = "a", .form = "decoded x"}};
  std::string seen;
  const auto sink = [&](size_t, const ObjectFound& found) {
    seen = (found.prepared ? "prepared " : "") + text_of(found.bytes);
    if (found.keep) found.keep(bytes_of("DECODED"));
  };
  store->read_many(reads, {}, sink);
  EXPECT_EQ(seen, "raw");
  store->read_many(reads, {}, sink);
  EXPECT_EQ(seen, "prepared DECODED");
  const std::vector<ObjectRead> other_form = {{.key = "a", .form = "decoded y"}};
  store->read_many(other_form, {}, sink);
  EXPECT_EQ(seen, "raw");
  std::vector<ObjectRead> fresh = reads;
  fresh[0].fresh = true;
  store->read_many(fresh, {}, sink);
  EXPECT_EQ(seen, "raw");
}

TEST_F(CachedStoreTest, WhatManyWantAtOnceIsFetchedOnce) {
  for (int i = 0; i < 20; ++i)
    base_->put("k" + std::to_string(i), bytes_of(std::string(5000, 'x')));
  std::vector<std::shared_ptr<CachedStore>> workers;
  for (int i = 0; i < 4; ++i) workers.push_back(open(start_));
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (const auto& worker : workers)
    threads.emplace_back([&, worker] {
      std::vector<ObjectRead> reads;
      for (int i = 0; i < 20; ++i) reads.push_back({.key = "k" + std::to_string(i)});
      worker->read_many(reads, {}, [&](size_t, const ObjectFound& found) {
        wrong += found.bytes.size() != 5000;
        if (found.keep) found.keep(found.bytes);
      });
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(base_->asked, 20u);
}

TEST_F(CachedStoreTest, WhatIsMissingIsSoForTheJobAndAskedForByALaterOne) {
  const auto store = open(start_);
  EXPECT_FALSE(store->get("late"));
  EXPECT_FALSE(open(start_)->get("late"));
  EXPECT_EQ(base_->asked, 1u);
  base_->put("late", bytes_of("there now"));
  EXPECT_FALSE(store->get("late"));  // all workers of a job see the same
  const auto later = open(system_clock::now() + std::chrono::hours(1));
  EXPECT_EQ(text_of(*later->get("late")), "there now");
  EXPECT_EQ(text_of(*store->get("late")), "there now");
  base_->remove("late");
  EXPECT_FALSE(later->get("late"));
  EXPECT_FALSE(store->get("late"));
  EXPECT_EQ(base_->asked, 3u);
}

TEST_F(CachedStoreTest, AnAbsenceIsNoVersionOfAnObject) {
  const auto store = open(start_);
  EXPECT_FALSE(store->get("a"));
  base_->put("a", bytes_of("x"));
  const std::vector<ObjectRead> reads = {{.key = "a", .etag = base_->head("a")->etag}};
  std::string seen;
  store->read_many(reads, {}, [&](size_t, const ObjectFound& f) { seen = text_of(f.bytes); });
  EXPECT_EQ(seen, "x");
}

TEST_F(CachedStoreTest, ObjectsWithoutAnEtagAreReadEachTime) {
  base_->put("a", bytes_of("first"));
  base_->hides_etags = true;
  const auto store = open(start_);
  EXPECT_EQ(text_of(*store->get("a")), "first");
  EXPECT_EQ(text_of(*store->get("a")), "first");
  EXPECT_EQ(base_->asked, 2u);
  base_->put("a", bytes_of("second"));
  EXPECT_EQ(text_of(*store->get("a")), "second");
  EXPECT_EQ(cache_->counters().stored, 0u);
}

TEST_F(CachedStoreTest, AFailureLeavesNoClaimBehind) {
  base_->put("a", bytes_of("x"));
  base_->before_answer = [] { throw std::runtime_error("the line is cut"); };
  EXPECT_THROW(open(start_)->get("a"), std::runtime_error);
  base_->before_answer = nullptr;
  EXPECT_EQ(text_of(*open(start_)->get("a")), "x");
}

}  // namespace
}  // namespace craton::store

namespace craton::testing {
INSTANTIATE_TYPED_TEST_SUITE_P(Cached, ObjectStoreContract, store::CachedFixture);
}
