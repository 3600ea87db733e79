#include "craton/store/object_store.h"

#include <algorithm>

#include "craton/store/range_plan.h"

namespace craton::store {

std::optional<std::span<const std::byte>> ObjectStore::get_into(std::string_view key,
                                                                Bytes& buffer) {
  auto bytes = get(key);
  if (!bytes) return std::nullopt;
  buffer = std::move(*bytes);
  return std::span<const std::byte>(buffer);
}

std::vector<std::string> ObjectStore::list_children(std::string_view folder) {
  while (folder.ends_with('/')) folder.remove_suffix(1);
  const std::string prefix = folder.empty() ? "" : std::string(folder) + "/";
  std::vector<std::string> out;
  for (const ObjectInfo& object : list(prefix)) {
    const std::string rest = object.key.substr(prefix.size());
    const size_t slash = rest.find('/');
    out.push_back(slash == rest.npos ? rest : rest.substr(0, slash + 1));
  }
  std::ranges::sort(out);
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

void ObjectStore::read_many(std::span<const ObjectRead> reads, const ReadLimits& limits,
                            const ReadSink& sink) {
  const RangePlan plan = plan_ranges(reads, limits);
  fetch_many(plan.reads, plan.parallel, [&](size_t i, const ObjectFound& whole) {
    for (const RangePlan::Piece& piece : plan.pieces_of(i)) {
      ObjectFound found = whole;
      if (found.state == ObjectFound::State::kRead && !reads[piece.read].is_whole() &&
          !reads[piece.read].from_end)
        found.bytes = whole.bytes.subspan(piece.offset, reads[piece.read].length);
      sink(piece.read, found);
    }
  });
}

void ObjectStore::fetch_many(std::span<const ObjectRead> reads, size_t, const ReadSink& sink) {
  for (size_t i = 0; i < reads.size(); ++i) {
    const ObjectRead& read = reads[i];
    ObjectFound found;
    const auto info = head(read.key);
    const auto state_before_reading = [&] {
      if (!info) return ObjectFound::State::kMissing;
      if (!read.etag.empty() && info->etag != read.etag) return ObjectFound::State::kChanged;
      if (!read.unless_etag.empty() && info->etag == read.unless_etag)
        return ObjectFound::State::kUnchanged;
      return ObjectFound::State::kRead;
    };
    found.state = state_before_reading();
    std::optional<Bytes> bytes;
    if (found.state == ObjectFound::State::kRead) {
      bytes = read.is_whole() ? get(read.key)
              : read.from_end ? get_suffix(read.key, read.length)
                              : get_range(read.key, read.offset, read.length);
      if (bytes) {
        found.bytes = *bytes;
      } else {
        found.state = ObjectFound::State::kMissing;
      }
    }
    if (info) {
      found.etag = info->etag;
      found.object_size = info->size;
    }
    sink(i, found);
  }
}

}  // namespace craton::store
