#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "craton/store/cache/cache_peers.h"
#include "craton/store/cache/cache_policy.h"
#include "craton/store/cache/node_cache.h"
#include "craton/store/environment.h"
#include "craton/store/wrapped_store.h"

namespace craton::store {

/// Reads another store through a cache. An entry stands for (store, key, range, form) and carries
/// the ETag and size of the object that it came from. It is used without asking when some process
/// of the node has compared it with its object since NodeCacheOptions::trusted_since; else the
/// object is asked for unless it still has this ETag, and so a changed object is read anew. That an
/// object is missing is kept in the same way, until somebody trusts no answer so old. Objects
/// without an ETag are not kept. What several processes want at once is fetched by one of them.
///
/// Writing, listing and `head` go to the store. Thread-safe.
class CachedStore final : public WrappedStore {
 public:
  CachedStore(std::shared_ptr<ObjectStore> base, CachePolicy policy);

  std::string identity() const override { return identity_; }
  std::optional<Bytes> get(std::string_view key) override;
  std::optional<Bytes> get_range(std::string_view key, uint64_t offset, uint64_t length) override;
  std::optional<Bytes> get_suffix(std::string_view key, uint64_t length) override;
  void read_many(std::span<const ObjectRead> reads, const ReadLimits& limits,
                 const ReadSink& sink) override;
  std::string kept_form() const override;

 private:
  struct Miss;
  std::string entry_key(const ObjectRead& read) const;
  std::optional<Bytes> read_one(ObjectRead read);
  /// Serves the read from the cache if that can be done without asking the store; the entry, if
  /// there is one that has to be compared first.
  bool serve(size_t index, const ObjectRead& read, const ReadSink& sink,
             std::shared_ptr<NodeCache::Entry>& stale);
  void look_at_peers(std::span<const ObjectRead> reads, std::vector<Miss>& misses,
                     const ReadSink& sink);
  void fetch(std::span<const ObjectRead> reads, std::vector<Miss>& misses, const ReadLimits& limits,
             const ReadSink& sink);

  std::shared_ptr<NodeCache> cache_;
  std::shared_ptr<CachePeers> peers_;
  CacheForm form_;
  std::string identity_;
};

/// The folder for caches of this user: CRATON_CACHE_DIR, else craton below XDG_CACHE_HOME, else
/// ~/.cache/craton, else craton-cache-UID in the temporary folder.
std::filesystem::path default_cache_folder(const Environment& environment);

/// The most bytes of `wanted` that a cache in `folder` should take: at most half of what is free
/// there and already its own. Looks at no entry.
uint64_t affordable_cache_bytes(const std::filesystem::path& folder, uint64_t wanted);

}  // namespace craton::store
