#include "craton/store/http/remote_store.h"

#include <algorithm>

namespace craton::store::http {

namespace {

constexpr size_t kParallelParts = 16;
/// Buffers that a thread keeps between calls of `fetch_many`.
constexpr uint64_t kKeptBufferBytes = 16 << 20;

[[noreturn]] void past_end(const std::string& what, std::optional<uint64_t> size, uint64_t offset,
                           uint64_t length) {
  fail(ErrorCode::kOutOfRange, "{}: it has {} bytes; {} from byte {} on were asked for", what,
       size ? std::to_string(*size) : "fewer", length, offset);
}

}  // namespace

void RemoteStore::run(Call& call) {
  try {
    client_.run(call);
  } catch (Error& e) {
    if (e.code() == ErrorCode::kPermission) add_hint(e);
    throw;
  }
}

/// False when there is no such object.
bool RemoteStore::read(std::string_view key, BodyReader& reader) {
  Call call = make_call("GET", key);
  call.reader = &reader;
  call.also_answers.push_back(404);
  call.also_answers.push_back(416);
  run(call);
  if (call.response.status == 416) {
    call.past_end = true;
    return true;
  }
  return call.past_end || !is_missing(call);
}

std::optional<Bytes> RemoteStore::get(std::string_view key) {
  Bytes buffer;
  BodyReader reader = BodyReader::whole(buffer);
  if (!read(key, reader)) return std::nullopt;
  buffer.resize(reader.received());
  return buffer;
}

std::optional<std::span<const std::byte>> RemoteStore::get_into(std::string_view key,
                                                                Bytes& buffer) {
  BodyReader reader = BodyReader::whole(buffer);
  if (!read(key, reader)) return std::nullopt;
  return std::span<const std::byte>(buffer.data(), reader.received());
}

std::optional<Bytes> RemoteStore::get_range(std::string_view key, uint64_t offset,
                                            uint64_t length) {
  if (length == 0 || length > ~0ull - offset || length >= 2 * client_.limits().part_bytes)
    return get_parts(key, offset, length);
  Bytes buffer;
  BodyReader reader = BodyReader::range(buffer, offset, length);
  if (!read(key, reader)) return std::nullopt;
  if (!reader.complete()) past_end(join_uri(uri(), key), reader.total(), offset, length);
  buffer.resize(length);
  return buffer;
}

std::optional<Bytes> RemoteStore::get_parts(std::string_view key, uint64_t offset,
                                            uint64_t length) {
  const auto info = head(key);
  if (!info) return std::nullopt;
  if (offset > info->size || length > info->size - offset)
    past_end(join_uri(uri(), key), info->size, offset, length);
  Bytes buffer(length);
  const size_t part = client_.limits().part_bytes;
  std::vector<BodyReader> readers;
  std::vector<Call> calls;
  readers.reserve((length + part - 1) / part);
  for (uint64_t at = 0; at < length; at += part) {
    const auto target = std::span(buffer).subspan(at, std::min<uint64_t>(part, length - at));
    readers.push_back(BodyReader::part(target, offset + at, info->etag));
    Call call = make_call("GET", key);
    call.reader = &readers.back();
    calls.push_back(std::move(call));
  }
  client_.run_all(calls, kParallelParts);
  for (const BodyReader& reader : readers)
    if (!reader.complete())  // shorter now than its head said, without an ETag to tell
      past_end(join_uri(uri(), key), reader.total(), offset, length);
  return buffer;
}

std::optional<Bytes> RemoteStore::get_suffix(std::string_view key, uint64_t length) {
  if (length == 0) return head(key) ? std::optional(Bytes()) : std::nullopt;
  Bytes buffer;
  BodyReader reader = BodyReader::suffix(buffer, length);
  if (!read(key, reader)) return std::nullopt;
  if (!reader.complete()) {  // 416: nothing to give the last bytes of, or a server that cannot
    const auto info = head(key);
    if (!info) return std::nullopt;
    const uint64_t size = std::min(length, info->size);
    return get_range(key, info->size - size, size);
  }
  buffer.resize(reader.received());
  return buffer;
}

/// One of the requests of `fetch_many` that are in flight.
struct RemoteStore::Slot {
  Bytes buffer;
  std::optional<BodyReader> reader;
  Call call;
  std::string etag;
};

void RemoteStore::start(Slot& slot, const ObjectRead& read) {
  slot.call = make_call("GET", read.key);
  slot.call.also_answers.insert(slot.call.also_answers.end(), {404, 416});
  slot.call.may_change = true;
  if (!read.unless_etag.empty()) {
    slot.call.request.headers.set("If-None-Match", read.unless_etag);
    slot.call.also_answers.push_back(304);
  }
  if (read.is_whole()) {
    slot.reader = BodyReader::whole(slot.buffer);
  } else if (read.from_end) {
    slot.reader = BodyReader::suffix(slot.buffer, read.length);
  } else {
    if (slot.buffer.size() < read.length) slot.buffer.resize(read.length);
    slot.reader =
        BodyReader::part(std::span(slot.buffer).first(read.length), read.offset, read.etag);
  }
  slot.call.reader = &*slot.reader;
}

ObjectFound RemoteStore::found(Slot& slot, const ObjectRead& read) {
  using State = ObjectFound::State;
  const int status = slot.call.response.status;
  ObjectFound found;
  if (slot.call.changed) {
    found.state = State::kChanged;
  } else if (status == 304 && !read.unless_etag.empty()) {
    found.state = State::kUnchanged;
    slot.etag = read.unless_etag;
  } else if (status != 416 && !slot.call.past_end && is_missing(slot.call)) {
    found.state = State::kMissing;
  } else if (!slot.reader->complete() || status == 416) {
    past_end(join_uri(uri(), read.key), slot.reader->total(), read.offset, read.length);
  } else {
    found.bytes = std::span(slot.buffer).first(slot.reader->received());
    slot.etag = slot.reader->etag();
    found.object_size = slot.reader->total().value_or(0);
    if (!read.etag.empty() && slot.etag != read.etag) found.state = State::kChanged;
  }
  found.etag = slot.etag;
  return found;
}

void RemoteStore::fetch_many(std::span<const ObjectRead> reads, size_t parallel,
                             const ReadSink& sink) {
  // Buffers only ever grow, and the next call of this thread finds them again: memory that the
  // system has just mapped costs as much as copying into it.
  thread_local std::vector<Bytes> kept;
  std::vector<size_t> ordinary, odd;  // odd: empty ranges, and what a server could not answer
  for (size_t i = 0; i < reads.size(); ++i) (reads[i].length > 0 ? ordinary : odd).push_back(i);
  std::vector<Slot> slots(std::min(parallel, ordinary.size()));
  for (Slot& slot : slots) {
    if (kept.empty()) break;
    slot.buffer = std::move(kept.back());
    kept.pop_back();
  }
  const auto start_call = [&](size_t n, size_t slot) -> Call& {
    slots[slot].etag.clear();
    start(slots[slot], reads[ordinary[n]]);
    return slots[slot].call;
  };
  const auto end_call = [&](size_t n, size_t slot) {
    const size_t i = ordinary[n];
    if (reads[i].from_end && slots[slot].call.response.status == 416) {
      odd.push_back(i);
    } else {
      sink(i, found(slots[slot], reads[i]));
    }
  };
  try {
    client_.run_each(ordinary.size(), parallel, start_call, end_call);
  } catch (Error& e) {
    if (e.code() == ErrorCode::kPermission) add_hint(e);
    throw;
  }
  uint64_t bytes = 0;
  for (const Bytes& buffer : kept) bytes += buffer.size();
  for (Slot& slot : slots) {
    bytes += slot.buffer.size();
    if (bytes <= kKeptBufferBytes) kept.push_back(std::move(slot.buffer));
  }
  for (const size_t i : odd)
    ObjectStore::fetch_many(reads.subspan(i, 1), 1,
                            [&](size_t, const ObjectFound& found) { sink(i, found); });
}

std::optional<ObjectInfo> RemoteStore::head(std::string_view key) {
  Call call = make_call("HEAD", key);
  call.also_answers.push_back(404);
  run(call);
  if (is_missing(call)) return std::nullopt;
  const auto size = call.response.content_length();
  if (!size)
    fail(ErrorCode::kIo, "{}: the server does not say how long it is", join_uri(uri(), key));
  return ObjectInfo{std::string(key), *size, call.response.etag()};
}

}  // namespace craton::store::http
