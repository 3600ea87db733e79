#include "craton/store/memory_store.h"

#include <algorithm>

#include "craton/base/error.h"

namespace craton::store {

namespace {

class MemoryUpload final : public Upload {
 public:
  MemoryUpload(MemoryStore store, std::string key)
      : store_(std::move(store)), key_(std::move(key)) {}
  void append(std::span<const std::byte> bytes) override {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  void finish() override { store_.put(key_, bytes_); }

 private:
  MemoryStore store_;  // shares its content with the store it came from
  std::string key_;
  Bytes bytes_;
};

}  // namespace

std::shared_ptr<MemoryStore> MemoryStore::open(std::string_view uri) {
  static std::mutex mutex;
  static auto* stores =
      new std::map<std::string, std::shared_ptr<Content>, std::less<>>();  // outlives all users
  std::string_view rest = uri;
  if (rest.starts_with("memory://")) rest.remove_prefix(9);
  while (rest.ends_with('/')) rest.remove_suffix(1);
  if (rest.empty() || rest.front() == '/')
    fail(ErrorCode::kInvalidArgument, "\"{}\" names no memory store: expected memory://name", uri);
  const size_t slash = rest.find('/');
  std::lock_guard lock(mutex);
  auto& content = (*stores)[std::string(rest.substr(0, slash))];
  if (!content) content = std::make_shared<Content>();
  std::string prefix = slash == rest.npos ? "" : std::string(rest.substr(slash + 1)) + "/";
  return std::shared_ptr<MemoryStore>(
      new MemoryStore("memory://" + std::string(rest), std::move(prefix), content));
}

std::string MemoryStore::uri() const { return uri_; }

std::string MemoryStore::full_key(std::string_view key) const {
  if (key.empty()) fail(ErrorCode::kInvalidArgument, "an object key may not be empty");
  return prefix_ + std::string(key);
}

std::shared_ptr<const Bytes> MemoryStore::find(std::string_view key) {
  const std::string full = full_key(key);
  std::lock_guard lock(content_->mutex);
  const auto it = content_->objects.find(full);
  return it == content_->objects.end() ? nullptr : it->second.bytes;
}

std::optional<Bytes> MemoryStore::get(std::string_view key) {
  const auto bytes = find(key);
  if (!bytes) return std::nullopt;
  return *bytes;
}

std::optional<Bytes> MemoryStore::get_range(std::string_view key, uint64_t offset,
                                            uint64_t length) {
  const auto bytes = find(key);
  if (!bytes) return std::nullopt;
  if (offset > bytes->size() || length > bytes->size() - offset)
    fail(ErrorCode::kOutOfRange, "{} has {} bytes; bytes {} to {} were asked for",
         join_uri(uri_, key), bytes->size(), offset, offset + length);
  const auto begin = bytes->begin() + static_cast<ptrdiff_t>(offset);
  return Bytes(begin, begin + static_cast<ptrdiff_t>(length));
}

std::optional<Bytes> MemoryStore::get_suffix(std::string_view key, uint64_t length) {
  const auto bytes = find(key);
  if (!bytes) return std::nullopt;
  const size_t n = std::min<uint64_t>(length, bytes->size());
  return Bytes(bytes->end() - static_cast<ptrdiff_t>(n), bytes->end());
}

std::optional<ObjectInfo> MemoryStore::head(std::string_view key) {
  const std::string full = full_key(key);
  std::lock_guard lock(content_->mutex);
  const auto it = content_->objects.find(full);
  if (it == content_->objects.end()) return std::nullopt;
  return ObjectInfo{std::string(key), it->second.bytes->size(),
                    fmt::format("{:x}", it->second.version)};
}

std::vector<ObjectInfo> MemoryStore::list(std::string_view prefix) {
  const std::string full = prefix_ + std::string(prefix);
  std::vector<ObjectInfo> out;
  std::lock_guard lock(content_->mutex);
  for (auto it = content_->objects.lower_bound(full);
       it != content_->objects.end() && it->first.starts_with(full); ++it)
    out.push_back({it->first.substr(prefix_.size()), it->second.bytes->size(),
                   fmt::format("{:x}", it->second.version)});
  return out;
}

void MemoryStore::put(std::string_view key, std::span<const std::byte> bytes) {
  auto copy = std::make_shared<const Bytes>(bytes.begin(), bytes.end());
  const std::string full = full_key(key);
  std::lock_guard lock(content_->mutex);
  content_->objects[full] = {std::move(copy), ++content_->version};
}

bool MemoryStore::put_if_absent(std::string_view key, std::span<const std::byte> bytes) {
  auto copy = std::make_shared<const Bytes>(bytes.begin(), bytes.end());
  const std::string full = full_key(key);
  std::lock_guard lock(content_->mutex);
  return content_->objects.try_emplace(full, Object{std::move(copy), ++content_->version}).second;
}

std::unique_ptr<Upload> MemoryStore::start_upload(std::string_view key) {
  return std::make_unique<MemoryUpload>(*this, std::string(key));
}

void MemoryStore::remove(std::string_view key) {
  const std::string full = full_key(key);
  std::lock_guard lock(content_->mutex);
  content_->objects.erase(full);
}

}  // namespace craton::store
