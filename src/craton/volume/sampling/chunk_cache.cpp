#include "craton/volume/sampling/chunk_cache.h"

#include <chrono>
#include <exception>

#include "craton/base/check.h"

namespace craton::volume {

void ByteCount::add(uint64_t bytes) {
  const uint64_t now = held_ += bytes;
  uint64_t before = peak_;
  while (now > before && !peak_.compare_exchange_weak(before, now)) {
  }
}

ChunkCache::~ChunkCache() {
  CRATON_CHECK(idle_.size() == entries_.size(), "a chunk is still in use");
  count_.subtract(bytes_);
}

std::span<const float> ChunkCache::Pin::samples() const {
  return {entry_->samples.get(), entry_->elements};
}

bool ChunkCache::make_room(uint64_t bytes) {
  while (bytes_ + bytes > capacity_) {
    if (idle_.empty()) return false;
    Entry& oldest = *idle_.front();
    idle_.pop_front();
    erase(oldest);
  }
  return true;
}

void ChunkCache::erase(Entry& entry) {
  const uint64_t bytes = entry.elements * sizeof(float);
  entries_.erase(Key(entry.key));
  bytes_ -= bytes;
  count_.subtract(bytes);
}

ChunkCache::Key ChunkCache::key_of(const VolumeInfo& info, int32_t number,
                                   std::span<const int64_t> chunk) {
  Key key{number, 0};
  for (size_t d = 0; d < chunk.size(); ++d) {
    const int64_t size = info.chunk_shape[d];
    key.chunk = key.chunk * ((info.axes[d].size() + size - 1) / size) + chunk[d];
  }
  return key;
}

/// With the lock held, and room.
ChunkCache::Entry& ChunkCache::add(const Key& key, size_t elements) {
  auto owned = std::make_unique<Entry>();
  Entry& entry = *owned;
  entry.key = key;
  entry.elements = elements;
  entry.pins = 1;
  entries_.emplace(key, std::move(owned));
  bytes_ += elements * sizeof(float);
  count_.add(elements * sizeof(float));
  return entry;
}

/// With the lock held.
void ChunkCache::loaded(Entry& entry) {
  ++fetched_;
  entry.loading = false;
  changed_.notify_all();
}

ChunkCache::Pin ChunkCache::get(const Volume& volume, int32_t number,
                                std::span<const int64_t> chunk) {
  const Key key = key_of(volume.info(), number, chunk);
  size_t elements = 1;
  for (const int64_t n : volume.info().chunk_shape) elements *= static_cast<size_t>(n);
  const uint64_t bytes = elements * sizeof(float);
  CRATON_CHECK(bytes <= capacity_);
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto found = entries_.find(key);
    if (found != entries_.end()) {
      Entry& entry = *found->second;
      if (entry.loading) {
        changed_.wait(lock);
        continue;
      }
      if (entry.pins++ == 0) idle_.erase(entry.place);
      ++hits_;
      return Pin(*this, entry);
    }
    if (make_room(bytes)) break;
    const auto since = std::chrono::steady_clock::now();
    changed_.wait(lock);
    const std::chrono::nanoseconds waited = std::chrono::steady_clock::now() - since;
    roomless_ns_ += waited.count();
  }
  Entry& entry = add(key, elements);
  lock.unlock();
  try {
    entry.samples = std::make_unique_for_overwrite<float[]>(elements);
    volume.read_chunk(chunk, {entry.samples.get(), elements});
  } catch (...) {
    // Whoever waits for this chunk tries for itself and meets the same error.
    lock.lock();
    erase(entry);
    changed_.notify_all();
    throw;
  }
  lock.lock();
  loaded(entry);
  return Pin(*this, entry);
}

void ChunkCache::load(const Volume& volume, int32_t number,
                      std::span<const std::vector<int64_t>> chunks,
                      const store::ReadLimits& limits) {
  size_t elements = 1;
  for (const int64_t n : volume.info().chunk_shape) elements *= static_cast<size_t>(n);
  std::vector<Entry*> entries;
  std::vector<std::vector<int64_t>> absent;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& chunk : chunks) {
      const auto found = entries_.find(key_of(volume.info(), number, chunk));
      if (found == entries_.end() || found->second->loading || found->second->pins > 0) continue;
      idle_.splice(idle_.end(), idle_, found->second->place);
    }
    for (const auto& chunk : chunks) {
      const Key key = key_of(volume.info(), number, chunk);
      if (entries_.contains(key)) continue;
      if (!make_room(elements * sizeof(float))) break;
      entries.push_back(&add(key, elements));
      absent.push_back(chunk);
    }
  }
  if (absent.empty()) return;
  try {
    std::vector<std::span<float>> targets;
    for (Entry* entry : entries) {
      entry->samples = std::make_unique_for_overwrite<float[]>(elements);
      targets.emplace_back(entry->samples.get(), elements);
    }
    volume.read_chunks(absent, targets, limits, [&](size_t i) {
      {
        const std::lock_guard lock(mutex_);
        loaded(*entries[i]);
      }
      unpin(*std::exchange(entries[i], nullptr));
    });
  } catch (const std::exception&) {
    const std::lock_guard lock(mutex_);
    for (Entry* entry : entries)
      if (entry != nullptr) erase(*entry);
    changed_.notify_all();
  }
}

void ChunkCache::unpin(Entry& entry) {
  const std::lock_guard lock(mutex_);
  if (--entry.pins > 0) return;
  entry.place = idle_.insert(idle_.end(), &entry);
  changed_.notify_all();
}

}  // namespace craton::volume
