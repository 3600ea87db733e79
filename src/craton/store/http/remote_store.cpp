#include "craton/store/http/remote_store.h"

#include <algorithm>

namespace craton::store::http {

namespace {

constexpr size_t kParallelParts = 16;

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
