#include "store_read.h"

#include <blosc.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>

#include "craton/base/check.h"
#include "craton/runtime/thread_pool.h"
#include "craton/store/object_store.h"
#include "craton/volume/volume.h"

namespace craton::bench {

namespace {

constexpr int64_t kSide = 64;
constexpr size_t kChunkFloats = kSide * kSide * kSide;
constexpr int64_t kGrid[] = {4, 4, 8};
constexpr int kRounds = 9;

/// Layered sections with noise, in whole numbers: compresses about as well as migrated amplitudes.
void fill_chunk(std::span<float> samples, std::span<const int64_t> chunk) {
  uint32_t state = 2463534242u + static_cast<uint32_t>(chunk[0] * 73856093 + chunk[1] * 19349663 +
                                                       chunk[2] * 83492791);
  for (size_t i = 0; i < samples.size(); ++i) {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    const auto t = static_cast<float>(i % kSide + kSide * static_cast<size_t>(chunk[2]));
    const auto trace = static_cast<float>(i / (kSide * kSide));
    const float noise = static_cast<float>(state % 2001) - 1000.0f;
    samples[i] = std::round(8000.0f * std::sin(0.21f * t) * std::sin(0.013f * t + trace) + noise);
  }
}

volume::Axis axis(const char* name, int64_t size) {
  volume::Axis out{name};
  for (int64_t i = 0; i < size; ++i) out.coordinates.push_back(static_cast<double>(i));
  return out;
}

struct Chunks {
  std::vector<std::vector<int64_t>> indexes;
  std::vector<store::Bytes> frames;
  size_t encoded_bytes = 0;
};

Chunks make_store(const std::string& uri, size_t threads) {
  volume::VolumeSpec spec;
  spec.axes = {axis("inline", kSide * kGrid[0]), axis("crossline", kSide * kGrid[1]),
               axis("time", kSide * kGrid[2])};
  spec.chunk_shape = {kSide, kSide, kSide};
  auto writer = volume::create_volume(uri, spec);
  Chunks chunks;
  for (int64_t i = 0; i < kGrid[0]; ++i)
    for (int64_t j = 0; j < kGrid[1]; ++j)
      for (int64_t k = 0; k < kGrid[2]; ++k) chunks.indexes.push_back({i, j, k});
  runtime::parallel_for(chunks.indexes.size(), threads, [&](size_t n) {
    std::vector<float> samples(kChunkFloats);
    fill_chunk(samples, chunks.indexes[n]);
    writer->write_chunk(chunks.indexes[n], samples, {});
  });
  writer->finish();
  const auto store = store::open_store(uri);
  for (const auto& index : chunks.indexes) {
    const std::string key = fmt::format("amplitude/c/{}/{}/{}", index[0], index[1], index[2]);
    chunks.frames.push_back(*store->get(key));
    chunks.encoded_bytes += chunks.frames.back().size();
  }
  return chunks;
}

double seconds_of(const std::function<void()>& body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Runs body(chunk, buffer) for all chunks; each thread has one buffer.
void for_all(size_t chunks, size_t threads,
             const std::function<void(size_t, std::span<float>)>& body) {
  std::atomic<size_t> next{0};
  runtime::parallel_for(threads, threads, [&](size_t) {
    std::vector<float> buffer(kChunkFloats);
    for (size_t n = next++; n < chunks; n = next++) body(n, buffer);
  });
}

}  // namespace

void add_store_read_rows(Table& table, const std::filesystem::path& folder, size_t threads) {
  const std::string uri = (folder / "store-read.mdio").string();
  const Chunks chunks = make_store(uri, threads);
  const auto volume = volume::open_volume(uri);
  const size_t count = chunks.frames.size();
  const double megabytes = static_cast<double>(count * kChunkFloats * sizeof(float)) / 1e6;

  std::vector<float> whole(count * kChunkFloats);
  const std::vector<int64_t> slab{kSide, kSide * kGrid[1], kSide * kGrid[2]};
  const size_t slab_floats = whole.size() / kGrid[0];
  const auto read_chunks = [&] {
    for_all(count, threads, [&](size_t n, std::span<float> buffer) {
      volume->read_chunk(chunks.indexes[n], buffer);
    });
  };
  const auto blosc_alone = [&] {
    for_all(count, threads, [&](size_t n, std::span<float> buffer) {
      CRATON_CHECK(
          blosc_decompress_ctx(chunks.frames[n].data(), buffer.data(), buffer.size_bytes(), 1) > 0);
    });
  };
  const auto read_whole = [&] {
    runtime::parallel_for(static_cast<size_t>(kGrid[0]), threads, [&](size_t i) {
      volume->read(std::vector<int64_t>{kSide * static_cast<int64_t>(i), 0, 0}, slab,
                   std::span(whole).subspan(i * slab_floats, slab_floats));
    });
  };
  // They take turns, so that whatever else the machine does meets all of them.
  std::vector<double> ours, peer, block;
  for (int round = 0; round <= kRounds; ++round) {
    const double times[] = {seconds_of(read_chunks), seconds_of(blosc_alone),
                            seconds_of(read_whole)};
    if (round == 0) continue;  // fills the page cache
    ours.push_back(times[0]);
    peer.push_back(times[1]);
    block.push_back(times[2]);
  }
  table.add_ratio("reading a decoded 64^3 chunk store, all of it; blosc", "MB/s", Better::kHigher,
                  megabytes / median(ours), megabytes / median(peer), 0.9);
  table.add_ratio("the same, put together in one array; blosc", "MB/s", Better::kHigher,
                  megabytes / median(block), megabytes / median(peer), 0.6);
}

}  // namespace craton::bench
