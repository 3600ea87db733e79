#include "craton/store/cache/node_cache.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "craton/base/error.h"
#include "craton/base/fault_point.h"
#include "craton/base/philox.h"

namespace craton::store {
namespace {

namespace fs = std::filesystem;

std::vector<std::byte> content(uint64_t number, size_t size) {
  std::vector<std::byte> out(size);
  const Philox random(number, RandomPurpose::kTest);
  for (size_t i = 0; i < size; i += 16) {
    const auto block = random.block(i);
    std::memcpy(out.data() + i, block.data(), std::min<size_t>(16, size - i));
  }
  return out;
}

size_t size_of(uint64_t number) { return 1000 + number * 37 % 20000; }

bool is_content(const NodeCache::Entry& entry, uint64_t number) {
  const auto wanted = content(number, size_of(number));
  return std::ranges::equal(entry.bytes(), wanted);
}

bool put(NodeCache& cache, uint64_t number) {
  return cache.put("key " + std::to_string(number), "\"" + std::to_string(number) + "\"", 7,
                   content(number, size_of(number)));
}

std::shared_ptr<NodeCache::Entry> find(NodeCache& cache, uint64_t number) {
  return cache.find("key " + std::to_string(number));
}

class NodeCacheTest : public ::testing::Test {
 protected:
  std::shared_ptr<NodeCache> open(uint64_t bytes = 1 << 20, int trusted_seconds_ago = 0) {
    return NodeCache::open(
        {folder_.path() / "cache", bytes,
         std::chrono::system_clock::now() - std::chrono::seconds(trusted_seconds_ago)});
  }
  /// The files of entries, and unfinished ones.
  std::vector<fs::path> files() const {
    std::vector<fs::path> out;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path() / "cache" / "v1"))
      if (entry.is_regular_file()) out.push_back(entry.path());
    return out;
  }
  runtime::TemporaryDirectory folder_;
};

TEST_F(NodeCacheTest, GivesBackWhatWasPutAlsoToOthersAndLater) {
  auto cache = open();
  EXPECT_EQ(find(*cache, 1), nullptr);
  ASSERT_TRUE(put(*cache, 1));
  const auto other = open();
  for (auto* c : {cache.get(), other.get()}) {
    const auto entry = find(*c, 1);
    ASSERT_NE(entry, nullptr);
    EXPECT_TRUE(is_content(*entry, 1));
    EXPECT_EQ(entry->etag(), "\"1\"");
    EXPECT_EQ(entry->object_size(), 7u);
  }
  const auto held = find(*cache, 1);
  ASSERT_TRUE(cache->put("key 1", "\"new\"", 9, content(5, 100)));
  EXPECT_TRUE(is_content(*held, 1));  // whoever has the old one keeps it
  EXPECT_EQ(find(*other, 1)->etag(), "\"new\"");
  EXPECT_EQ(find(*other, 1)->bytes().size(), 100u);
}

TEST_F(NodeCacheTest, OnlyWhatWasComparedLatelyIsConfirmed) {
  put(*open(), 1);
  const auto later = NodeCache::open({folder_.path() / "cache", 1 << 20,
                                      std::chrono::system_clock::now() + std::chrono::seconds(30)});
  auto entry = find(*later, 1);
  ASSERT_NE(entry, nullptr);
  EXPECT_FALSE(entry->is_confirmed());
  EXPECT_TRUE(find(*open(1 << 20, 60), 1)->is_confirmed());
  const auto now = open();
  entry = find(*now, 1);
  now->confirm(*entry);
  EXPECT_TRUE(find(*now, 1)->is_confirmed());
  EXPECT_TRUE(is_content(*find(*now, 1), 1));  // the note is not part of the checksums
}

TEST_F(NodeCacheTest, StaysWithinItsLimitAndDropsWhatWasUsedLongestAgo) {
  const uint64_t limit = 512 << 10;
  auto cache = open(limit);
  for (uint64_t i = 0; i < 200; ++i) {
    put(*cache, i);
    find(*cache, 0);  // used all the time
    ASSERT_LE(cache->count_bytes(), limit);
  }
  EXPECT_GT(cache->counters().evicted, 50u);
  EXPECT_NE(find(*cache, 0), nullptr);
  EXPECT_NE(find(*cache, 199), nullptr);
  EXPECT_EQ(find(*cache, 1), nullptr);
  EXPECT_FALSE(cache->put("large", "e", 1, content(1, limit / 4)));
  EXPECT_GT(cache->count_bytes(), limit / 2);
}

TEST_F(NodeCacheTest, DamageIsNeverServedAndGoesAway) {
  auto cache = open();
  const size_t entry_bytes = [&] {
    put(*cache, 1);
    return static_cast<size_t>(fs::file_size(files().at(0)));
  }();
  // Each byte of the header's start, and some of the rest: flipped or cut off.
  for (size_t at = 0; at < entry_bytes; at += at < 160 ? 1 : 997) {
    put(*cache, 1);
    const fs::path path = files().at(0);
    const bool is_confirmation = at >= 16 && at < 24;
    if (at % 2 == 0 && !is_confirmation) {
      fs::resize_file(path, at);
    } else {
      runtime::FileDescriptor fd(::open(path.c_str(), O_RDWR));
      std::byte byte{};
      ASSERT_EQ(::pread(fd.get(), &byte, 1, static_cast<off_t>(at)), 1);
      byte ^= std::byte{0x10};
      ASSERT_EQ(::pwrite(fd.get(), &byte, 1, static_cast<off_t>(at)), 1);
    }
    const auto entry = find(*cache, 1);
    if (is_confirmation) {
      ASSERT_NE(entry, nullptr);
      EXPECT_TRUE(is_content(*entry, 1));
    } else {
      EXPECT_EQ(entry, nullptr) << at;
    }
  }
  EXPECT_GT(cache->counters().damaged, 100u);
  EXPECT_LE(files().size(), 1u);
}

TEST_F(NodeCacheTest, AFullDiskCostsTheCacheAndNotTheJob) {
  auto cache = open();
  arm_faults("cache.full:full");
  EXPECT_FALSE(put(*cache, 1));
  arm_faults("");
  EXPECT_EQ(find(*cache, 1), nullptr);
  EXPECT_TRUE(files().empty());
  EXPECT_TRUE(put(*cache, 1));
  EXPECT_THROW(NodeCache::open({"/proc/no/cache", 1 << 20}), Error);
}

TEST_F(NodeCacheTest, OneAtATimeHasTheClaim) {
  auto cache = open(), other = open();
  {
    const auto claim = cache->try_claim("a");
    ASSERT_TRUE(claim);
    EXPECT_FALSE(cache->try_claim("a"));
    EXPECT_FALSE(other->try_claim("a"));
    EXPECT_FALSE(other->claim("a", std::chrono::milliseconds(5)));
    EXPECT_TRUE(other->try_claim("b"));
  }
  EXPECT_TRUE(other->try_claim("a"));
}

/// Puts and finds until it is killed, in a process of its own.
[[noreturn]] void work(const fs::path& folder, uint64_t limit, uint64_t seed,
                       std::atomic<uint64_t>& steps, std::atomic<uint64_t>& wrong) {
  auto cache = NodeCache::open({folder, limit});
  const Philox random(seed, RandomPurpose::kTest);
  for (uint64_t i = 0;; ++i) {
    const uint64_t number = random.block(i)[0] % 300;
    if (const auto entry = find(*cache, number)) {
      wrong += !is_content(*entry, number);
    } else if (const auto claim = cache->try_claim("key " + std::to_string(number))) {
      put(*cache, number);
    }
    ++steps;
  }
}

/// Counters that children write and the parent reads.
struct SharedCounters {
  std::atomic<uint64_t> steps[4]{}, wrong{0};
};

TEST_F(NodeCacheTest, ProcessesAreKilledAnywhereAndWhatIsFoundIsRight) {
  const uint64_t limit = 768 << 10;
  void* memory = ::mmap(nullptr, sizeof(SharedCounters), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto& counters = *new (memory) SharedCounters();
  std::array<pid_t, 4> children{};
  uint64_t seed = 0;
  const auto start = [&](size_t i, const char* fault) {
    counters.steps[i] = 0;
    ++seed;
    children[i] = ::fork();
    if (children[i] != 0) return;
    if (fault != nullptr) arm_faults(fault);
    work(folder_.path() / "cache", limit, seed, counters.steps[i], counters.wrong);
  };
  for (size_t i = 0; i < 4; ++i) start(i, nullptr);
  const char* const faults[] = {nullptr, "cache.write:occurrence=3:kill",
                                nullptr, "cache.publish:occurrence=5:kill",
                                nullptr, "cache.evict:occurrence=2:kill"};
  const Philox random(99, RandomPurpose::kTest);
  for (uint64_t kill = 0; kill < 60; ++kill) {
    const size_t victim = kill % 4;
    const uint64_t goal = 20 + random.block(kill)[0] % 400;
    while (counters.steps[victim] < goal && ::waitpid(children[victim], nullptr, WNOHANG) == 0)
      std::this_thread::yield();
    ::kill(children[victim], SIGKILL);
    ::waitpid(children[victim], nullptr, 0);
    start(victim, faults[kill % std::size(faults)]);
  }
  for (const pid_t child : children) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  EXPECT_EQ(counters.wrong, 0u);
  // Without any repair: a newcomer finds what is there, keeps to the limit, and clears away.
  auto cache = open(limit);
  uint64_t found = 0;
  for (uint64_t number = 0; number < 300; ++number) {
    const auto entry = find(*cache, number);
    found += entry != nullptr;
    EXPECT_TRUE(!entry || is_content(*entry, number));
    EXPECT_TRUE(cache->try_claim("key " + std::to_string(number)));
  }
  EXPECT_GT(found, 20u);
  EXPECT_EQ(cache->counters().damaged, 0u);
  EXPECT_LE(cache->count_bytes(), limit);
  for (uint64_t number = 1000; number < 1200; ++number) EXPECT_TRUE(put(*cache, number));
  EXPECT_LE(cache->count_bytes(), limit);
  for (const fs::path& path : files())
    EXPECT_EQ(path.filename().string().find(".tmp-"), std::string::npos) << path;
  ::munmap(memory, sizeof(SharedCounters));
}

}  // namespace
}  // namespace craton::store
