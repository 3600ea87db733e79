#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "craton/volume/volume.h"

namespace craton::volume {

/// Bytes in use and the most there ever were, for several owners together.
class ByteCount {
 public:
  void add(uint64_t bytes);
  void subtract(uint64_t bytes) { held_ -= bytes; }
  uint64_t held() const { return held_; }
  uint64_t peak() const { return peak_; }

 private:
  std::atomic<uint64_t> held_{0}, peak_{0};
};

/// Decoded chunks of several volumes, bounded; the least recently used go first. A chunk that
/// several threads want is read once. A thread holds one chunk at a time, so a thread that waits
/// for room is always served in the end. Thread-safe.
class ChunkCache {
 private:
  struct Entry;

 public:
  /// `capacity` bytes; at least one chunk of each volume. `count` is told of every byte.
  ChunkCache(uint64_t capacity, ByteCount& count) : capacity_(capacity), count_(count) {}
  ~ChunkCache();

  /// Keeps a chunk in memory as long as it lives.
  class Pin {
   public:
    Pin(ChunkCache& cache, Entry& entry) : cache_(&cache), entry_(&entry) {}
    Pin(Pin&& other) noexcept
        : cache_(std::exchange(other.cache_, nullptr)), entry_(other.entry_) {}
    Pin& operator=(Pin&&) = delete;
    ~Pin() {
      if (cache_ != nullptr) cache_->unpin(*entry_);
    }
    /// product(chunk_shape) samples.
    std::span<const float> samples() const;

   private:
    ChunkCache* cache_;
    Entry* entry_;
  };

  /// Reads the chunk unless it is there. Blocks for a read by another thread and for room. Throws
  /// what Volume::read_chunk throws.
  Pin get(const Volume& volume, int32_t number, std::span<const int64_t> chunk);

  /// Reads those of these chunks that are neither there nor being read, as far as there is room
  /// beside chunks that are in use, by one plan on this thread; the ones that are there count as
  /// just used. Chunks become available one by one. Never waits for room. What cannot be read is
  /// left to `get`, which tells why.
  void load(const Volume& volume, int32_t number, std::span<const std::vector<int64_t>> chunks,
            const store::ReadLimits& limits);

  int64_t fetched() const { return fetched_; }
  int64_t hits() const { return hits_; }
  /// Of all threads that found everything in use.
  double seconds_without_room() const { return 1e-9 * static_cast<double>(roomless_ns_.load()); }

 private:
  struct Key {
    int32_t volume;
    int64_t chunk;
    auto operator<=>(const Key&) const = default;
  };
  struct Entry {
    Key key;
    std::unique_ptr<float[]> samples;
    size_t elements = 0;
    int pins = 0;
    bool loading = true;
    std::list<Entry*>::iterator place;  // in idle_, when pins == 0
  };
  static Key key_of(const VolumeInfo& info, int32_t number, std::span<const int64_t> chunk);
  Entry& add(const Key& key, size_t elements);
  void loaded(Entry& entry);
  void unpin(Entry& entry);
  bool make_room(uint64_t bytes);
  void erase(Entry& entry);

  const uint64_t capacity_;
  ByteCount& count_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Key, std::unique_ptr<Entry>> entries_;
  std::list<Entry*> idle_;  // unpinned, the oldest first
  uint64_t bytes_ = 0;
  std::atomic<int64_t> fetched_{0}, hits_{0}, roomless_ns_{0};
};

}  // namespace craton::volume
