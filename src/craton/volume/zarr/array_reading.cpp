#include <optional>
#include <utility>

#include "craton/base/error.h"
#include "craton/volume/zarr/array.h"
#include "craton/volume/zarr/kept_form.h"

namespace craton::volume::zarr {

using store::ObjectFound;
using store::ObjectRead;

namespace {

constexpr size_t kCachedIndexEntries = 8 << 20;  // 64 MiB
/// How often a plan is made anew because a shard was replaced while it was read.
constexpr int kMostVersions = 3;

/// Adds the key to errors that come from decoding.
template <typename F>
auto with_key(const std::string& key, const F& body) {
  try {
    return body();
  } catch (Error& e) {
    const bool from_decoding =
        e.code() == ErrorCode::kCorrupt || e.code() == ErrorCode::kUnsupported;
    if (!from_decoding || !e.context().empty()) throw;
    throw std::move(e.with("key", key));
  }
}

/// Calls decode(found). Bytes that turn out damaged are fetched once more, since a store that
/// answers wrongly now and then is better asked again; a second failure carries the key.
template <typename Decode>
auto decode_found(store::ObjectStore& store, const ObjectRead& read, const ObjectFound& found,
                  const Decode& decode) {
  return with_key(read.key, [&] {
    try {
      return decode(found);
    } catch (const Error& e) {
      if (e.code() != ErrorCode::kCorrupt) throw;
    }
    ObjectRead again = read;
    again.fresh = true;
    std::optional<decltype(decode(found))> result;
    store.read_many({&again, 1}, {}, [&](size_t, const ObjectFound& second) {
      if (second.state != ObjectFound::State::kRead)
        throw Error(ErrorCode::kIo, "what was damaged is gone or replaced when it is read again");
      result = decode(second);
    });
    return std::move(*result);
  });
}

/// A read went past the end of an object: says which. `what` tells of the read.
template <typename Describe>
[[noreturn]] void past_end(store::ObjectStore& store, std::span<const ObjectRead> reads,
                           const Error& error, const Describe& what) {
  for (const ObjectRead& read : reads) {
    const auto info = store.head(read.key);
    if (info && !read.is_whole() && !read.from_end &&
        (read.offset > info->size || read.length > info->size - read.offset))
      throw Error(ErrorCode::kCorrupt, what(read)).with("key", read.key);
  }
  throw error;
}

}  // namespace

std::shared_ptr<const ShardIndex> Array::decode_index(std::span<const std::byte> encoded) const {
  const Sharding& sharding = *metadata_.codecs.sharding;
  const size_t size = shard_index_bytes(sharding, metadata_.object_shape);
  if (encoded.size() != size)
    fail(ErrorCode::kCorrupt, "a shard of {} bytes is shorter than its index of {}", encoded.size(),
         size);
  return std::make_shared<const ShardIndex>(
      decode_shard_index(sharding, encoded, metadata_.object_shape, metadata_.type.size));
}

std::map<std::string, Array::KnownShard> Array::known_shards(
    const std::set<std::string>& keys, const store::ReadLimits& limits) const {
  const Sharding& sharding = *metadata_.codecs.sharding;
  const size_t size = shard_index_bytes(sharding, metadata_.object_shape);
  std::map<std::string, KnownShard> out;
  std::vector<ObjectRead> reads;
  {
    std::lock_guard lock(cache_->mutex);
    for (const std::string& key : keys) {
      const auto it = cache_->shards.find(key);
      if (it != cache_->shards.end()) {
        out.emplace(key, it->second);
      } else {
        reads.push_back({.key = key, .length = size, .from_end = !sharding.index_at_start});
      }
    }
  }
  std::map<std::string, KnownShard> fresh;
  try {
    store_->read_many(reads, limits, [&](size_t i, const ObjectFound& found) {
      KnownShard& shard = fresh[reads[i].key];
      shard.etag = found.etag;
      if (found.state == ObjectFound::State::kMissing) return;
      const auto decode = [&](const ObjectFound& f) {
        auto index = decode_index(f.bytes);
        if (f.keep) f.keep(f.bytes);
        shard.etag = f.etag;
        return index;
      };
      shard.index = decode_found(*store_, reads[i], found, decode);
    });
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kOutOfRange) throw;
    past_end(*store_, reads, e, [&](const ObjectRead&) {
      return fmt::format("a shard shorter than its index of {} bytes", size);
    });
  }
  std::lock_guard lock(cache_->mutex);
  for (auto& [key, shard] : fresh) {
    const size_t entries = shard.index ? shard.index->entries.size() : 1;
    if (cache_->entries + entries > kCachedIndexEntries) {
      cache_->shards.clear();
      cache_->entries = 0;
    }
    if (cache_->shards.insert_or_assign(key, shard).second) cache_->entries += entries;
    out.insert_or_assign(key, std::move(shard));
  }
  return out;
}

void Array::forget_shard(const std::string& key) const {
  std::lock_guard lock(cache_->mutex);
  const auto it = cache_->shards.find(key);
  if (it == cache_->shards.end()) return;
  cache_->entries -= it->second.index ? it->second.index->entries.size() : 1;
  cache_->shards.erase(it);
}

/// One call of read_chunks.
class Array::Reading {
 public:
  Reading(const Array& array, std::span<const std::vector<int64_t>> chunks,
          const store::ReadLimits& limits, const std::function<void(size_t, const Decode&)>& place)
      : array_(array), chunks_(chunks), limits_(limits), place_(place) {}

  void run() {
    std::vector<size_t> wanted(chunks_.size());
    for (size_t i = 0; i < wanted.size(); ++i) wanted[i] = i;
    for (int version = 0; !wanted.empty(); ++version) {
      if (version == kMostVersions)
        fail(ErrorCode::kIo, "array \"{}\" of {} changes while it is read", array_.path_,
             array_.store_->uri());
      wanted = run_once(wanted);
    }
  }

 private:
  struct Piece {
    size_t chunk;
    ObjectRead read;
  };

  void place_fill(size_t chunk) {
    place_(chunk, [&](std::span<std::byte> out) {
      fill_elements(out, array_.metadata_.fill);
      return false;
    });
  }

  /// Where the bytes of the chunks lie; those that are nowhere are placed at once.
  std::vector<Piece> pieces_of(const std::vector<size_t>& wanted) {
    std::vector<Piece> out;
    if (!array_.metadata_.has_inner_chunks()) {
      for (const size_t i : wanted)
        out.push_back({i, {.key = array_.object_key(chunks_[i]), .form = array_.form_}});
      return out;
    }
    std::set<std::string> keys;
    std::vector<std::pair<std::string, size_t>> places;
    for (const size_t i : wanted) {
      const InnerPlace place = array_.inner_place(chunks_[i]);
      places.emplace_back(array_.object_key(place.shard), place.number);
      keys.insert(places.back().first);
    }
    const auto shards = array_.known_shards(keys, limits_);
    for (size_t n = 0; n < wanted.size(); ++n) {
      const auto& [key, number] = places[n];
      const KnownShard& shard = shards.at(key);
      if (!shard.index || shard.index->is_absent(number)) {
        place_fill(wanted[n]);
        continue;
      }
      out.push_back({wanted[n],
                     {.key = key,
                      .offset = shard.index->offset(number),
                      .length = shard.index->length(number),
                      .etag = shard.etag,
                      .form = array_.form_}});
    }
    return out;
  }

  /// The chunks whose shard was replaced meanwhile.
  std::vector<size_t> run_once(const std::vector<size_t>& wanted) {
    const std::vector<Piece> pieces = pieces_of(wanted);
    const bool inner = array_.metadata_.has_inner_chunks();
    std::vector<ObjectRead> reads;
    for (const Piece& piece : pieces) reads.push_back(piece.read);
    std::vector<size_t> again;
    try {
      array_.store_->read_many(reads, limits_, [&](size_t i, const ObjectFound& found) {
        if (found.state == ObjectFound::State::kRead) {
          decode(pieces[i], found);
        } else if (found.state == ObjectFound::State::kMissing && !inner) {
          place_fill(pieces[i].chunk);
        } else {  // replaced, or gone since its index was read
          array_.forget_shard(reads[i].key);
          again.push_back(pieces[i].chunk);
        }
      });
    } catch (const Error& e) {
      if (e.code() != ErrorCode::kOutOfRange || !inner) throw;
      past_end(*array_.store_, reads, e, [](const ObjectRead& read) {
        return fmt::format("shard index: bytes {} to {} lie past the end of the shard", read.offset,
                           read.offset + read.length);
      });
    }
    return again;
  }

  void decode(const Piece& piece, const ObjectFound& found) {
    place_(piece.chunk, [&](std::span<std::byte> out) {
      if (out.size() != array_.chunk_bytes_)
        fail(ErrorCode::kInternal, "a buffer of {} bytes for a chunk of {}", out.size(),
             array_.chunk_bytes_);
      const auto into = [&](const ObjectFound& f) {
        if (f.prepared) {
          take_kept(array_.form_, f.bytes, out);
          return true;
        }
        decode_stored(f.bytes, out);
        if (f.keep && array_.form_.empty()) f.keep(f.bytes);
        if (f.keep && !array_.form_.empty())
          prepare_to_keep(array_.form_, out, array_.metadata_.type.size, f.keep);
        return true;
      };
      return decode_found(*array_.store_, piece.read, found, into);
    });
  }

  void decode_stored(std::span<const std::byte> bytes, std::span<std::byte> out) const {
    const ArrayMetadata& m = array_.metadata_;
    if (m.has_inner_chunks()) {
      const Sharding& sharding = *m.codecs.sharding;
      decode_chunk(sharding.inner, bytes, sharding.chunk_shape, m.type, m.fill, out);
    } else {
      decode_chunk(m.codecs, bytes, m.object_shape, m.type, m.fill, out);
    }
  }

  const Array& array_;
  std::span<const std::vector<int64_t>> chunks_;
  const store::ReadLimits& limits_;
  const std::function<void(size_t, const Decode&)>& place_;
};

void Array::read_chunks(std::span<const std::vector<int64_t>> chunks,
                        const store::ReadLimits& limits,
                        const std::function<void(size_t i, const Decode& decode)>& place) const {
  for (const auto& chunk : chunks) check_index(chunk);
  Reading(*this, chunks, limits, place).run();
}

}  // namespace craton::volume::zarr
