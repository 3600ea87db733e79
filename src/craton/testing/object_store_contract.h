#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "craton/base/error.h"
#include "craton/store/object_store.h"

namespace craton::testing {

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}
inline std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// What every ObjectStore promises. A store's test derives a fixture with `make()` (a fresh, empty
/// store) and instantiates:
///   struct FileStoreFixture { std::shared_ptr<store::ObjectStore> make(); };
///   INSTANTIATE_TYPED_TEST_SUITE_P(File, ObjectStoreContract, FileStoreFixture);
template <typename Fixture>
class ObjectStoreContract : public ::testing::Test {
 protected:
  Fixture fixture_;
  std::shared_ptr<store::ObjectStore> store_ = fixture_.make();
};
TYPED_TEST_SUITE_P(ObjectStoreContract);

TYPED_TEST_P(ObjectStoreContract, MissingObjectsAreAbsentNotErrors) {
  auto& store = *this->store_;
  EXPECT_FALSE(store.get("a/b").has_value());
  EXPECT_FALSE(store.get_range("a/b", 0, 4).has_value());
  EXPECT_FALSE(store.get_suffix("a/b", 4).has_value());
  EXPECT_FALSE(store.head("a/b").has_value());
  store::Bytes buffer;
  EXPECT_FALSE(store.get_into("a/b", buffer).has_value());
  EXPECT_TRUE(store.list("").empty());
  EXPECT_TRUE(store.list_children("").empty());
  EXPECT_NO_THROW(store.remove("a/b"));
}

TYPED_TEST_P(ObjectStoreContract, FoldersAreNoObjects) {
  auto& store = *this->store_;
  store.put("a/b/c", bytes_of("x"));
  EXPECT_FALSE(store.get("a").has_value());
  EXPECT_FALSE(store.get("a/b").has_value());
  EXPECT_FALSE(store.head("a/b").has_value());
  EXPECT_FALSE(store.get("a/b/c/d").has_value());
}

TYPED_TEST_P(ObjectStoreContract, ReadsWholeRangesAndSuffixes) {
  auto& store = *this->store_;
  store.put("k", bytes_of("0123456789"));
  EXPECT_EQ(text_of(*store.get("k")), "0123456789");
  EXPECT_EQ(text_of(*store.get_range("k", 0, 10)), "0123456789");
  EXPECT_EQ(text_of(*store.get_range("k", 3, 4)), "3456");
  EXPECT_EQ(text_of(*store.get_range("k", 10, 0)), "");
  EXPECT_EQ(text_of(*store.get_suffix("k", 3)), "789");
  EXPECT_EQ(text_of(*store.get_suffix("k", 100)), "0123456789");
  store::Bytes buffer;
  EXPECT_EQ(text_of(*store.get_into("k", buffer)), "0123456789");
  store.put("short", bytes_of("ab"));
  EXPECT_EQ(text_of(*store.get_into("short", buffer)), "ab");
}

TYPED_TEST_P(ObjectStoreContract, RangesPastTheEndAreErrors) {
  auto& store = *this->store_;
  store.put("k", bytes_of("0123456789"));
  for (const auto& [offset, length] : std::vector<std::pair<uint64_t, uint64_t>>{
           {0, 11}, {10, 1}, {11, 0}, {5, ~0ull}, {~0ull, 2}}) {
    try {
      store.get_range("k", offset, length);
      ADD_FAILURE() << offset << "+" << length << " was accepted";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kOutOfRange) << e.what();
    }
  }
}

TYPED_TEST_P(ObjectStoreContract, PutReplacesAndChangesTheEtag) {
  auto& store = *this->store_;
  store.put("k", bytes_of("one"));
  const auto first = store.head("k");
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->key, "k");
  EXPECT_EQ(first->size, 3u);
  store.put("k", bytes_of("two two"));
  const auto second = store.head("k");
  EXPECT_EQ(second->size, 7u);
  if (!first->etag.empty()) {
    EXPECT_NE(first->etag, second->etag);
  }
  EXPECT_EQ(text_of(*store.get("k")), "two two");
  store.put("empty", {});
  EXPECT_EQ(store.get("empty")->size(), 0u);
}

TYPED_TEST_P(ObjectStoreContract, PutIfAbsentLetsOneWriterWin) {
  auto& store = *this->store_;
  std::atomic<int> winners{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back(
        [&, i] { winners += store.put_if_absent("lock/1", bytes_of(std::to_string(i))); });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(winners, 1);
  EXPECT_FALSE(store.put_if_absent("lock/1", bytes_of("late")));
  EXPECT_NE(text_of(*store.get("lock/1")), "late");
  store.remove("lock/1");
  EXPECT_TRUE(store.put_if_absent("lock/1", bytes_of("again")));
}

TYPED_TEST_P(ObjectStoreContract, ListsByPrefixSorted) {
  auto& store = *this->store_;
  for (const char* key : {"b/2", "a/1", "b/10", "b/2x/y", "bc", "z"}) store.put(key, bytes_of(key));
  const auto keys = [&](std::string_view prefix) {
    std::vector<std::string> out;
    for (const auto& object : store.list(prefix)) {
      out.push_back(object.key);
      EXPECT_EQ(object.size, object.key.size());
    }
    return out;
  };
  using ::testing::ElementsAre;
  EXPECT_THAT(keys(""), ElementsAre("a/1", "b/10", "b/2", "b/2x/y", "bc", "z"));
  EXPECT_THAT(keys("b/"), ElementsAre("b/10", "b/2", "b/2x/y"));
  EXPECT_THAT(keys("b/2"), ElementsAre("b/2", "b/2x/y"));
  EXPECT_THAT(keys("nothing/"), ElementsAre());
  EXPECT_THAT(store.list_children(""), ElementsAre("a/", "b/", "bc", "z"));
  EXPECT_THAT(store.list_children("b"), ElementsAre("10", "2", "2x/"));
  EXPECT_THAT(store.list_children("b/2x/"), ElementsAre("y"));
  EXPECT_THAT(store.list_children("nothing"), ElementsAre());
}

TYPED_TEST_P(ObjectStoreContract, UploadsAppearWholeOrNotAtAll) {
  auto& store = *this->store_;
  {
    auto upload = store.start_upload("big/1");
    upload->append(bytes_of("first "));
    upload->append(bytes_of("second"));
    EXPECT_FALSE(store.get("big/1").has_value());
    upload->finish();
  }
  EXPECT_EQ(text_of(*store.get("big/1")), "first second");
  {
    auto upload = store.start_upload("big/2");
    upload->append(bytes_of("lost"));
  }
  EXPECT_FALSE(store.get("big/2").has_value());
  EXPECT_EQ(store.list("big/").size(), 1u);
}

TYPED_TEST_P(ObjectStoreContract, ReadersSeeOldOrNewNeverAMixture) {
  auto& store = *this->store_;
  const std::string old_text(50000, 'o'), new_text(70000, 'n');
  store.put("k", bytes_of(old_text));
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (int i = 0; i < 30; ++i) store.put("k", bytes_of(i % 2 ? old_text : new_text));
    stop = true;
  });
  int reads = 0;
  do {
    const std::string text = text_of(*store.get("k"));
    EXPECT_TRUE(text == old_text || text == new_text) << text.size();
    ++reads;
  } while (!stop);
  writer.join();
  EXPECT_GT(reads, 0);
}

TYPED_TEST_P(ObjectStoreContract, ManyThreadsWriteAndReadTheirOwnKeys) {
  auto& store = *this->store_;
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        const std::string key = "t" + std::to_string(t) + "/" + std::to_string(i);
        store.put(key, bytes_of(key));
        wrong += text_of(*store.get(key)) != key;
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(store.list("t").size(), 80u);
}

TYPED_TEST_P(ObjectStoreContract, ManyReadsEachGetTheirOwnBytes) {
  using store::ObjectFound;
  using store::ObjectRead;
  auto& store = *this->store_;
  std::string text;
  for (int i = 0; i < 5000; ++i) text += std::to_string(i) + ",";
  store.put("a/x", bytes_of(text));
  store.put("a/y", bytes_of("short"));
  const std::string etag = store.head("a/y")->etag;
  const std::vector<ObjectRead> reads = {
      {.key = "a/x", .offset = 4000, .length = 1000},
      {.key = "a/missing"},
      {.key = "a/y"},
      {.key = "a/x", .offset = 5000, .length = 500},
      {.key = "a/x", .length = 7, .from_end = true},
      {.key = "a/y", .length = 99, .from_end = true},
      {.key = "a/y", .unless_etag = etag},
      {.key = "a/y", .offset = 1, .length = 2, .etag = etag},
      {.key = "a/y", .offset = 1, .length = 2, .etag = "\"another\""},
      {.key = "a/x", .offset = 3, .length = 0},
  };
  std::vector<std::string> found(reads.size());
  std::vector<int> times(reads.size());
  std::vector<ObjectFound::State> states(reads.size());
  store.read_many(reads, {.parallel = 3}, [&](size_t i, const ObjectFound& f) {
    found[i] = text_of(f.bytes);
    states[i] = f.state;
    ++times[i];
    EXPECT_FALSE(f.prepared);
    if (i == 2) {
      EXPECT_EQ(f.etag, etag);
    }
  });
  using State = ObjectFound::State;
  EXPECT_THAT(times, ::testing::Each(1));
  EXPECT_THAT(states,
              ::testing::ElementsAre(State::kRead, State::kMissing, State::kRead, State::kRead,
                                     State::kRead, State::kRead, State::kUnchanged, State::kRead,
                                     State::kChanged, State::kRead));
  EXPECT_EQ(found[0], text.substr(4000, 1000));
  EXPECT_EQ(found[2], "short");
  EXPECT_EQ(found[3], text.substr(5000, 500));
  EXPECT_EQ(found[4], text.substr(text.size() - 7));
  EXPECT_EQ(found[5], "short");
  EXPECT_EQ(found[7], "ho");
  EXPECT_EQ(found[9], "");
  const std::vector<ObjectRead> past = {{.key = "a/y", .offset = 3, .length = 9}};
  try {
    store.read_many(past, {}, [](size_t, const ObjectFound&) {});
    ADD_FAILURE() << "read past the end";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kOutOfRange);
  }
  EXPECT_THROW(store.read_many(reads, {.parallel = 4},
                               [](size_t i, const ObjectFound&) {
                                 if (i == 3) throw std::runtime_error("the sink's own");
                               }),
               std::runtime_error);
}

REGISTER_TYPED_TEST_SUITE_P(ObjectStoreContract, MissingObjectsAreAbsentNotErrors,
                            FoldersAreNoObjects, ReadsWholeRangesAndSuffixes,
                            RangesPastTheEndAreErrors, PutReplacesAndChangesTheEtag,
                            PutIfAbsentLetsOneWriterWin, ListsByPrefixSorted,
                            UploadsAppearWholeOrNotAtAll, ReadersSeeOldOrNewNeverAMixture,
                            ManyThreadsWriteAndReadTheirOwnKeys, ManyReadsEachGetTheirOwnBytes);

}  // namespace craton::testing
