#include "craton/store/copy_object.h"

#include <algorithm>

#include "craton/base/error.h"

namespace craton::store {

namespace {

constexpr uint64_t kWindow = 64 << 20;

void read_version(ObjectStore& from, const ObjectInfo& source, uint64_t offset, uint64_t length,
                  const std::function<void(std::span<const std::byte>)>& use) {
  ObjectRead read{.key = source.key, .etag = source.etag};
  if (length < source.size) {
    read.offset = offset;
    read.length = length;
  }
  from.read_many({&read, 1}, {}, [&](size_t, const ObjectFound& found) {
    if (found.state == ObjectFound::State::kMissing)
      fail(ErrorCode::kNotFound, "{} was removed meanwhile", join_uri(from.uri(), source.key));
    if (found.state != ObjectFound::State::kRead || found.bytes.size() != length)
      fail(ErrorCode::kIo, "{} changed while it was copied; copy it again",
           join_uri(from.uri(), source.key));
    use(found.bytes);
  });
}

}  // namespace

void copy_object(ObjectStore& from, const ObjectInfo& source, ObjectStore& to, std::string_view key,
                 const std::function<void(uint64_t bytes)>& advance) {
  if (source.size <= kWindow) {
    read_version(from, source, 0, source.size, [&](std::span<const std::byte> bytes) {
      to.put(key, bytes);
      advance(bytes.size());
    });
    return;
  }
  const auto upload = to.start_upload(key);
  for (uint64_t at = 0; at < source.size; at += kWindow)
    read_version(from, source, at, std::min(kWindow, source.size - at),
                 [&](std::span<const std::byte> bytes) {
                   upload->append(bytes);
                   advance(bytes.size());
                 });
  upload->finish();
}

}  // namespace craton::store
