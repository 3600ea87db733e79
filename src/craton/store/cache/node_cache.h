#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "craton/runtime/file.h"

namespace craton::store {

struct NodeCacheOptions {
  std::filesystem::path folder;  ///< made when it is not there; on a local disk
  uint64_t bytes = 0;            ///< that its files may take together
  /// Entries that some process has compared with their object since then need no comparison.
  std::chrono::system_clock::time_point trusted_since = std::chrono::system_clock::now();
};

struct NodeCacheCounters {
  uint64_t hits = 0, misses = 0, stored = 0, evicted = 0, damaged = 0;
};

/// Bytes by key in a folder that all processes of a node share and that outlives them: what one has
/// fetched, the others and their successors find.
///
/// One file per entry, mapped by readers, so that what is evicted stays readable for whoever has it
/// open. A file appears whole by a rename; its header and content carry checksums, and what does
/// not match is removed as if it had never been there. So a process may be killed anywhere, and a
/// disk may lose what was not flushed: the cache is used as it is found, without repair. The size
/// limit holds for all files together: room is booked under a lock that dies with its holder, and
/// made by removing what was used longest ago. A folder that cannot be written, or a full disk,
/// costs the cache, never the job.
///
/// Thread-safe. Nothing here throws once it is open; every wait has an end.
class NodeCache {
 public:
  /// An entry found; its bytes stay in place as long as it lives.
  class Entry {
   public:
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;
    ~Entry();
    std::span<const std::byte> bytes() const { return bytes_; }
    /// The version of the object that this was made from.
    const std::string& etag() const { return etag_; }
    uint64_t object_size() const { return object_size_; }
    /// Stands for the fact that there is no such object.
    bool is_absence() const { return object_size_ == kAbsent; }
    /// Compared with its object lately enough (NodeCacheOptions::trusted_since).
    bool is_confirmed() const { return confirmed_; }
    /// All of it as it lies in its file, with key, ETag and checksums: what another node may keep.
    std::span<const std::byte> image() const { return {map_, map_bytes_}; }

   private:
    friend class NodeCache;
    static constexpr uint64_t kAbsent = ~0ull;
    Entry() = default;
    runtime::FileDescriptor fd_;
    std::byte* map_ = nullptr;
    size_t map_bytes_ = 0;
    std::span<const std::byte> bytes_;
    std::string etag_;
    uint64_t object_size_ = 0;
    bool confirmed_ = false;
  };

  /// kIo when the folder cannot be made or written.
  static std::shared_ptr<NodeCache> open(const NodeCacheOptions& options);
  ~NodeCache();

  /// Of the cache in this folder, as its processes have booked them; 0 where there is none.
  static uint64_t booked_bytes(const std::filesystem::path& folder);

  /// What an entry of this key is called on every node: 32 hexadecimal digits.
  static std::string name_of(std::string_view key);

  const std::filesystem::path& folder() const { return options_.folder; }
  /// Of this folder; another one has another.
  const std::string& id() const { return id_; }
  uint64_t limit() const { return options_.bytes; }

  /// nullptr when there is none, or none that is in order.
  std::shared_ptr<Entry> find(std::string_view key);
  /// Replaces what was there. False when it could not be kept: larger than an eighth of the limit,
  /// a full disk, no lock within a second.
  bool put(std::string_view key, std::string_view etag, uint64_t object_size,
           std::span<const std::byte> bytes);
  /// Keeps that there was no such object now.
  bool put_absence(std::string_view key);
  /// As `find` for whoever knows the name alone; nothing is counted.
  std::shared_ptr<Entry> find_name(std::string_view name);
  /// Keeps another node's entry with its note of when it was compared. False when it is not in
  /// order, is not of this name, or could not be kept.
  bool put_image(std::string_view name, std::span<const std::byte> image);
  /// Notes that the object still is what the entry was made from.
  void confirm(Entry& entry);

  /// The right to fetch a key, so that the workers of a node fetch it once. Ends with its owner,
  /// also after kill -9.
  class Claim {
   public:
    Claim(Claim&& other) noexcept : cache_(other.cache_), place_(other.place_) {
      other.cache_ = nullptr;
    }
    Claim& operator=(Claim&& other) noexcept {
      std::swap(cache_, other.cache_);
      std::swap(place_, other.place_);
      return *this;
    }
    ~Claim();

   private:
    friend class NodeCache;
    Claim(NodeCache* cache, uint64_t place) : cache_(cache), place_(place) {}
    NodeCache* cache_;
    uint64_t place_;
  };
  /// nullopt while another one has it.
  std::optional<Claim> try_claim(std::string_view key);
  /// The same, with a wait of at most `timeout`.
  std::optional<Claim> claim(std::string_view key, std::chrono::milliseconds timeout);

  NodeCacheCounters counters() const;
  /// Of all files, counted now.
  uint64_t count_bytes() const;

 private:
  explicit NodeCache(NodeCacheOptions options);
  struct Usage;  // shared by all processes
  class UsageLock;
  bool lock_place(uint64_t place, bool take) const;
  std::filesystem::path path_of(std::string_view name) const;
  /// The entry called `name`; of this key, where one is given.
  std::shared_ptr<Entry> read_entry(std::string_view name, std::string_view key);
  bool write_entry(std::string_view key, std::string_view etag, uint64_t object_size,
                   std::span<const std::byte> bytes, int64_t confirmed_ms);
  bool make_room(uint64_t bytes);
  void warn_once(const std::string& what);

  NodeCacheOptions options_;
  std::string id_;
  runtime::FileDescriptor lock_file_, usage_file_;
  Usage* usage_ = nullptr;
  std::mutex usage_mutex_, claims_mutex_;
  std::set<uint64_t> claims_;
  std::atomic<uint64_t> hits_{0}, misses_{0}, stored_{0}, evicted_{0}, damaged_{0};
  std::atomic<uint64_t> temporary_{0};
  std::atomic<bool> warned_{false};
};

}  // namespace craton::store
