#include "craton/store/cache/cached_store.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "craton/base/error.h"
#include "craton/runtime/file.h"

namespace craton::store {

namespace {

/// How long another process may take to fetch what this one wants, before this one fetches it too.
constexpr auto kMostPatience = std::chrono::seconds(30);

ObjectFound found_in(const NodeCache::Entry& entry, const ObjectRead& read) {
  ObjectFound found;
  if (entry.is_absence()) {
    found.state = ObjectFound::State::kMissing;
    return found;
  }
  found.bytes = entry.bytes();
  found.prepared = !read.form.empty();
  found.etag = entry.etag();
  found.object_size = entry.object_size();
  return found;
}

}  // namespace

/// A read that the cache could not serve.
struct CachedStore::Miss {
  size_t index;
  std::optional<NodeCache::Claim> claim;
  std::shared_ptr<NodeCache::Entry> stale;  ///< to be compared with the object
};

CachedStore::CachedStore(std::shared_ptr<ObjectStore> base, CachePolicy policy)
    : WrappedStore(std::move(base)),
      cache_(std::move(policy.cache)),
      peers_(std::move(policy.peers)),
      form_(policy.form),
      identity_(base_->identity()) {}

std::string CachedStore::kept_form() const {
  switch (form_) {
    case CacheForm::kStored:
      return "";
    case CacheForm::kDecoded:
      return "decoded";
    case CacheForm::kLz4:
      return "lz4";
  }
  return "";
}

std::string CachedStore::entry_key(const ObjectRead& read) const {
  return fmt::format("{}\n{}\n{} {} {}\n{}", identity_, read.key, read.offset, read.length,
                     read.from_end ? "end" : "", read.form);
}

std::optional<Bytes> CachedStore::read_one(ObjectRead read) {
  std::optional<Bytes> out;
  read_many({&read, 1}, {}, [&](size_t, const ObjectFound& found) {
    if (found.state != ObjectFound::State::kRead) return;
    if (found.keep) found.keep(found.bytes);
    out.emplace(found.bytes.begin(), found.bytes.end());
  });
  return out;
}

std::optional<Bytes> CachedStore::get(std::string_view key) {
  return read_one({.key = std::string(key)});
}

std::optional<Bytes> CachedStore::get_range(std::string_view key, uint64_t offset,
                                            uint64_t length) {
  if (length == ObjectRead::kWhole) return base_->get_range(key, offset, length);  // no such range
  return read_one({.key = std::string(key), .offset = offset, .length = length});
}

std::optional<Bytes> CachedStore::get_suffix(std::string_view key, uint64_t length) {
  return read_one({.key = std::string(key), .length = length, .from_end = true});
}

bool CachedStore::serve(size_t index, const ObjectRead& read, const ReadSink& sink,
                        std::shared_ptr<NodeCache::Entry>& stale) {
  if (read.fresh || !read.unless_etag.empty()) return false;
  const auto entry = cache_->find(entry_key(read));
  if (!entry) return false;
  const bool is_version = !read.etag.empty() && entry->etag() == read.etag;
  if (!is_version && (!read.etag.empty() || !entry->is_confirmed())) {
    if (read.etag.empty() && !entry->is_absence()) stale = entry;
    return false;
  }
  sink(index, found_in(*entry, read));
  return true;
}

/// Serves what other nodes have, and takes it off the list. What they have compared with the store
/// too long ago stays, to be compared.
void CachedStore::look_at_peers(std::span<const ObjectRead> reads, std::vector<Miss>& misses,
                                const ReadSink& sink) {
  if (!peers_) return;
  std::vector<std::string> names;
  for (const Miss& miss : misses) {
    const ObjectRead& read = reads[miss.index];
    if (!miss.stale && !read.fresh && read.unless_etag.empty())
      names.push_back(NodeCache::name_of(entry_key(read)));
  }
  if (names.empty()) return;
  peers_->fetch(names);
  std::erase_if(misses, [&](Miss& miss) {
    return !miss.stale && serve(miss.index, reads[miss.index], sink, miss.stale);
  });
}

void CachedStore::fetch(std::span<const ObjectRead> reads, std::vector<Miss>& misses,
                        const ReadLimits& limits, const ReadSink& sink) {
  look_at_peers(reads, misses, sink);
  if (misses.empty()) return;
  std::vector<ObjectRead> wanted;
  for (const Miss& miss : misses) {
    wanted.push_back(reads[miss.index]);
    if (miss.stale) wanted.back().unless_etag = miss.stale->etag();
  }
  base_->read_many(wanted, limits, [&](size_t i, const ObjectFound& from_base) {
    Miss& miss = misses[i];
    const ObjectRead& read = reads[miss.index];
    if (from_base.state == ObjectFound::State::kUnchanged && miss.stale) {
      cache_->confirm(*miss.stale);
      sink(miss.index, found_in(*miss.stale, read));
    } else {
      ObjectFound found = from_base;
      if (found.state == ObjectFound::State::kRead && !found.etag.empty())
        found.keep = [this, key = entry_key(read), etag = std::string(found.etag),
                      size = found.object_size](std::span<const std::byte> bytes) {
          if (cache_->put(key, etag, size, bytes) && peers_) peers_->copy(NodeCache::name_of(key));
        };
      if (found.state == ObjectFound::State::kMissing && read.etag.empty())
        cache_->put_absence(entry_key(read));
      sink(miss.index, found);
    }
    miss.claim.reset();
    miss.stale.reset();
  });
}

void CachedStore::read_many(std::span<const ObjectRead> reads, const ReadLimits& limits,
                            const ReadSink& sink) {
  std::vector<Miss> misses;
  std::vector<size_t> elsewhere;  // what another process is fetching
  for (size_t i = 0; i < reads.size(); ++i) {
    Miss miss{i, std::nullopt, nullptr};
    if (serve(i, reads[i], sink, miss.stale)) continue;
    if (!reads[i].fresh) miss.claim = cache_->try_claim(entry_key(reads[i]));
    if (miss.claim || reads[i].fresh) {
      misses.push_back(std::move(miss));
    } else {
      elsewhere.push_back(i);
    }
  }
  if (!misses.empty()) fetch(reads, misses, limits, sink);
  for (const size_t i : elsewhere) {
    // One at a time: no claim is held while waiting for another's.
    misses.clear();
    Miss miss{i, cache_->claim(entry_key(reads[i]), kMostPatience), nullptr};
    if (serve(i, reads[i], sink, miss.stale)) continue;
    misses.push_back(std::move(miss));
    fetch(reads, misses, limits, sink);
  }
}

std::filesystem::path default_cache_folder(const Environment& environment) {
  if (const auto given = environment("CRATON_CACHE_DIR")) return *given;
  if (const auto caches = environment("XDG_CACHE_HOME"))
    return std::filesystem::path(*caches) / "craton";
  if (const auto home = environment("HOME"))
    return std::filesystem::path(*home) / ".cache" / "craton";
  std::error_code ignored;
  return std::filesystem::temp_directory_path(ignored) /
         ("craton-cache-" + std::to_string(::getuid()));
}

uint64_t affordable_cache_bytes(const std::filesystem::path& folder, uint64_t wanted) {
  const uint64_t own = std::min(wanted, NodeCache::booked_bytes(folder));
  return std::min(wanted, (runtime::free_bytes(folder) + own) / 2);
}

std::shared_ptr<ObjectStore> open_store(std::string_view uri, const CachePolicy& policy) {
  auto base = open_store(uri);
  if (!policy.cache) return base;
  return std::make_shared<CachedStore>(std::move(base), policy);
}

}  // namespace craton::store
