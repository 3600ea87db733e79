// How an array's chunks are fetched: in how many requests, of which version, and through a cache.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "craton/base/error.h"
#include "craton/runtime/file.h"
#include "craton/store/cache/cached_store.h"
#include "craton/store/memory_store.h"
#include "craton/volume/zarr/array.h"

namespace craton::volume::zarr {
namespace {

using nlohmann::json;
using store::ObjectRead;

/// Remembers the requests that reach it, and can be changed while it is read.
class RecordingStore final : public store::ObjectStore {
 public:
  explicit RecordingStore(std::shared_ptr<store::ObjectStore> base) : base_(std::move(base)) {}
  std::string uri() const override { return base_->uri(); }
  std::optional<store::Bytes> get(std::string_view key) override { return base_->get(key); }
  std::optional<store::Bytes> get_range(std::string_view key, uint64_t o, uint64_t n) override {
    return base_->get_range(key, o, n);
  }
  std::optional<store::Bytes> get_suffix(std::string_view key, uint64_t n) override {
    return base_->get_suffix(key, n);
  }
  std::optional<store::ObjectInfo> head(std::string_view key) override { return base_->head(key); }
  std::vector<store::ObjectInfo> list(std::string_view prefix) override {
    return base_->list(prefix);
  }
  void put(std::string_view key, std::span<const std::byte> b) override { base_->put(key, b); }
  bool put_if_absent(std::string_view key, std::span<const std::byte> b) override {
    return base_->put_if_absent(key, b);
  }
  std::unique_ptr<store::Upload> start_upload(std::string_view key) override {
    return base_->start_upload(key);
  }
  void remove(std::string_view key) override { base_->remove(key); }

  std::vector<ObjectRead> requests;
  uint64_t bytes = 0;
  std::function<void(size_t number)> before_request;

 protected:
  void fetch_many(std::span<const ObjectRead> reads, size_t, const store::ReadSink& sink) override {
    for (size_t i = 0; i < reads.size(); ++i) {
      requests.push_back(reads[i]);
      if (before_request) before_request(requests.size());
      store::ObjectStore::fetch_many(reads.subspan(i, 1), 1,
                                     [&](size_t, const store::ObjectFound& found) {
                                       bytes += found.bytes.size();
                                       sink(i, found);
                                     });
    }
  }

 private:
  std::shared_ptr<store::ObjectStore> base_;
};

/// 16 x 16 floats in shards of 8 x 8 with inner chunks of 2 x 2, or in chunks of 2 x 2.
struct Made {
  explicit Made(bool sharded) {
    static int counter = 0;
    memory = store::open_store("memory://reading" + std::to_string(++counter));
    recording = std::make_shared<RecordingStore>(memory);
    json document = {{"zarr_format", 3},
                     {"node_type", "array"},
                     {"shape", {16, 16}},
                     {"data_type", "float32"},
                     {"chunk_key_encoding", "default"},
                     {"fill_value", 0},
                     {"codecs", {"bytes", "crc32c"}}};
    document["chunk_grid"] = {{"name", "regular"}, {"configuration", {{"chunk_shape", {2, 2}}}}};
    if (sharded) {
      document["chunk_grid"]["configuration"]["chunk_shape"] = {8, 8};
      document["codecs"] = {
          {{"name", "sharding_indexed"},
           {"configuration", {{"chunk_shape", {2, 2}}, {"codecs", {"bytes", "crc32c"}}}}}};
    }
    metadata = parse_array_v3(document, "zarr.json");
    write(0);
  }

  /// All chunks, with samples that begin at `first`.
  void write(float first) {
    Array array(memory, "", metadata);
    if (!metadata.has_inner_chunks()) {
      for (int64_t i = 0; i < 8; ++i)
        for (int64_t j = 0; j < 8; ++j)
          array.write_chunk(std::vector<int64_t>{i, j}, elements(first, i, j));
      return;
    }
    for (int64_t a = 0; a < 2; ++a)
      for (int64_t b = 0; b < 2; ++b) write_shard(first, a, b);
  }
  void write_shard(float first, int64_t a, int64_t b) {
    const Sharding& sharding = *metadata.codecs.sharding;
    std::vector<std::optional<Bytes>> chunks;
    for (int64_t i = 0; i < 4; ++i)
      for (int64_t j = 0; j < 4; ++j)
        chunks.push_back(encode_chunk(sharding.inner, elements(first, 4 * a + i, 4 * b + j),
                                      sharding.chunk_shape, metadata.type));
    memory->put(fmt::format("c/{}/{}", a, b),
                encode_shard(sharding, chunks, metadata.object_shape));
  }
  static Bytes elements(float first, int64_t i, int64_t j) {
    float values[4];
    for (int64_t n = 0; n < 4; ++n)
      values[n] = first + static_cast<float>((2 * i + n / 2) * 16 + 2 * j + n % 2);
    const auto bytes = std::as_bytes(std::span(values));
    return {bytes.begin(), bytes.end()};
  }
  static void expect_all(const Bytes& all, float first) {
    ASSERT_EQ(all.size(), 16u * 16 * sizeof(float));
    std::vector<float> values(256);
    std::memcpy(values.data(), all.data(), all.size());
    for (size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(values[i], first + static_cast<float>(i)) << i;
  }

  std::shared_ptr<store::ObjectStore> memory;
  std::shared_ptr<RecordingStore> recording;
  ArrayMetadata metadata;
};

TEST(ArrayReading, AShardIsOneRequestAndItsIndexIsReadOnce) {
  Made made(true);
  const Array array(made.recording, "", made.metadata);
  Made::expect_all(array.read_all(), 0);
  EXPECT_EQ(made.recording->requests.size(), 8u);  // four indexes, four ranges
  made.recording->requests.clear();
  made.recording->bytes = 0;
  Made::expect_all(array.read_all(), 0);
  EXPECT_EQ(made.recording->requests.size(), 4u);
  EXPECT_EQ(made.recording->bytes, 64u * (4 * sizeof(float) + 4));
  for (const ObjectRead& request : made.recording->requests) EXPECT_NE(request.etag, "");
}

TEST(ArrayReading, LittleIsFetchedThatNobodyWants) {
  Made made(true);
  const Array array(made.recording, "", made.metadata);
  std::vector<std::vector<int64_t>> column;
  for (int64_t i = 0; i < 8; ++i) column.push_back({i, 3});
  size_t placed = 0;
  array.read_chunks(column, {}, [&](size_t, const Array::Decode& decode) {
    Bytes out(array.chunk_bytes());
    EXPECT_TRUE(decode(out));
    ++placed;
  });
  EXPECT_EQ(placed, 8u);
  uint64_t ranges = 0;
  for (const ObjectRead& request : made.recording->requests)
    ranges += request.from_end ? 0 : request.length;
  EXPECT_LE(static_cast<double>(ranges), 1.0625 * 8 * (4 * sizeof(float) + 4));
}

TEST(ArrayReading, AShardThatIsReplacedMeanwhileIsReadAnew) {
  Made made(true);
  const Array array(made.recording, "", made.metadata);
  made.recording->before_request = [&](size_t number) {
    if (number == 5) made.write(1000);  // indexes are read, ranges are not
  };
  Made::expect_all(array.read_all(), 1000);
  // One that never stands still is an error, not a mixture.
  const Array other(made.recording, "", made.metadata);
  made.recording->before_request = [&](size_t number) { made.write(static_cast<float>(number)); };
  EXPECT_THROW(other.read_all(), Error);
}

TEST(ArrayReading, EveryFormOfCacheGivesTheSameAndFollowsChanges) {
  for (const bool sharded : {false, true}) {
    for (const auto form :
         {store::CacheForm::kStored, store::CacheForm::kDecoded, store::CacheForm::kLz4}) {
      Made made(sharded);
      const runtime::TemporaryDirectory folder;
      const auto open = [&](bool trusting) {
        const auto now = std::chrono::system_clock::now();
        auto cache = store::NodeCache::open(
            {folder.path(), 64 << 20,
             trusting ? now - std::chrono::hours(1) : now + std::chrono::hours(1)});
        return Array(
            std::make_shared<store::CachedStore>(made.recording, store::CachePolicy{cache, form}),
            "", made.metadata);
      };
      Made::expect_all(open(true).read_all(), 0);
      const uint64_t fetched = made.recording->bytes;
      const size_t asked = made.recording->requests.size();
      Made::expect_all(open(true).read_all(), 0);
      EXPECT_EQ(made.recording->requests.size(), asked);
      Made::expect_all(open(false).read_all(), 0);  // a later job asks, and fetches nothing
      EXPECT_EQ(made.recording->bytes, fetched);
      made.write(500);
      Made::expect_all(open(false).read_all(), 500);
      Made::expect_all(open(true).read_all(), 500);
    }
  }
}

TEST(ArrayReading, WhatDoesNotDecodeIsNotKept) {
  Made made(false);
  made.memory->put("c/0/0", std::as_bytes(std::span("twenty bytes of junk", 20)));
  const runtime::TemporaryDirectory folder;
  auto cache = store::NodeCache::open({folder.path(), 64 << 20});
  const Array array(std::make_shared<store::CachedStore>(made.recording, store::CachePolicy{cache}),
                    "", made.metadata);
  EXPECT_THROW(array.read_all(), Error);
  made.write(0);
  Made::expect_all(array.read_all(), 0);
}

}  // namespace
}  // namespace craton::volume::zarr
