#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "craton/store/object_store.h"

namespace craton::store {

/// Objects in memory, for tests and scratch volumes. "memory://name" is the same content for every
/// opener of the process and lives until the process ends; "memory://name/part" is its subtree.
class MemoryStore final : public ObjectStore {
 public:
  /// The shared content of `uri`.
  static std::shared_ptr<MemoryStore> open(std::string_view uri);

  std::string uri() const override;
  std::optional<Bytes> get(std::string_view key) override;
  std::optional<Bytes> get_range(std::string_view key, uint64_t offset, uint64_t length) override;
  std::optional<Bytes> get_suffix(std::string_view key, uint64_t length) override;
  std::optional<ObjectInfo> head(std::string_view key) override;
  std::vector<ObjectInfo> list(std::string_view prefix) override;
  void put(std::string_view key, std::span<const std::byte> bytes) override;
  bool put_if_absent(std::string_view key, std::span<const std::byte> bytes) override;
  std::unique_ptr<Upload> start_upload(std::string_view key) override;
  void remove(std::string_view key) override;

 private:
  struct Object {
    std::shared_ptr<const Bytes> bytes;
    uint64_t version;
  };
  struct Content {
    std::mutex mutex;
    std::map<std::string, Object, std::less<>> objects;
    uint64_t version = 0;
  };
  MemoryStore(std::string uri, std::string prefix, std::shared_ptr<Content> content)
      : uri_(std::move(uri)), prefix_(std::move(prefix)), content_(std::move(content)) {}
  std::shared_ptr<const Bytes> find(std::string_view key);
  std::string full_key(std::string_view key) const;

  std::string uri_, prefix_;
  std::shared_ptr<Content> content_;
};

}  // namespace craton::store
