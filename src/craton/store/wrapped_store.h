#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "craton/store/object_store.h"

namespace craton::store {

/// Passes writing, listing and names on to another store; what wraps it adds something to reading.
class WrappedStore : public ObjectStore {
 public:
  std::string uri() const override { return base_->uri(); }
  std::string identity() const override { return base_->identity(); }
  std::string kept_form() const override { return base_->kept_form(); }
  std::optional<ObjectInfo> head(std::string_view key) override { return base_->head(key); }
  std::vector<ObjectInfo> list(std::string_view prefix) override { return base_->list(prefix); }
  std::vector<std::string> list_children(std::string_view folder) override {
    return base_->list_children(folder);
  }
  void put(std::string_view key, std::span<const std::byte> bytes) override {
    base_->put(key, bytes);
  }
  bool put_if_absent(std::string_view key, std::span<const std::byte> bytes) override {
    return base_->put_if_absent(key, bytes);
  }
  std::unique_ptr<Upload> start_upload(std::string_view key) override {
    return base_->start_upload(key);
  }
  void remove(std::string_view key) override { base_->remove(key); }

 protected:
  explicit WrappedStore(std::shared_ptr<ObjectStore> base) : base_(std::move(base)) {}
  const std::shared_ptr<ObjectStore> base_;
};

}  // namespace craton::store
