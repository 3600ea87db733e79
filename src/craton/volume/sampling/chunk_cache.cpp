#include "craton/volume/sampling/chunk_cache.h"

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

ChunkCache::Pin ChunkCache::get(const Volume& volume, int32_t number,
                                std::span<const int64_t> chunk) {
  const VolumeInfo& info = volume.info();
  Key key{number, 0};
  size_t elements = 1;
  for (size_t d = 0; d < chunk.size(); ++d) {
    const int64_t size = info.chunk_shape[d];
    key.chunk = key.chunk * ((info.axes[d].size() + size - 1) / size) + chunk[d];
    elements *= static_cast<size_t>(size);
  }
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
    changed_.wait(lock);
  }
  auto owned = std::make_unique<Entry>();
  Entry& entry = *owned;
  entry.key = key;
  entry.elements = elements;
  entry.pins = 1;
  entries_.emplace(key, std::move(owned));
  bytes_ += bytes;
  count_.add(bytes);
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
  ++fetched_;
  entry.loading = false;
  changed_.notify_all();
  return Pin(*this, entry);
}

void ChunkCache::unpin(Entry& entry) {
  const std::lock_guard lock(mutex_);
  if (--entry.pins > 0) return;
  entry.place = idle_.insert(idle_.end(), &entry);
  changed_.notify_all();
}

}  // namespace craton::volume
