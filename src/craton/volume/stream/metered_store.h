#pragma once

#include <atomic>
#include <memory>

#include "craton/store/object_store.h"

namespace craton::volume {

/// Counts what another store is asked for and gives.
class MeteredStore final : public store::ObjectStore {
 public:
  explicit MeteredStore(std::shared_ptr<store::ObjectStore> base) : base_(std::move(base)) {}

  uint64_t reads() const { return reads_; }
  uint64_t bytes() const { return bytes_; }

  std::string uri() const override { return base_->uri(); }
  std::string identity() const override { return base_->identity(); }
  std::string kept_form() const override { return base_->kept_form(); }
  std::optional<store::Bytes> get(std::string_view key) override;
  std::optional<store::Bytes> get_range(std::string_view key, uint64_t offset,
                                        uint64_t length) override;
  std::optional<store::Bytes> get_suffix(std::string_view key, uint64_t length) override;
  std::optional<store::ObjectInfo> head(std::string_view key) override;
  void read_many(std::span<const store::ObjectRead> reads, const store::ReadLimits& limits,
                 const store::ReadSink& sink) override;
  std::vector<store::ObjectInfo> list(std::string_view prefix) override {
    return base_->list(prefix);
  }
  std::vector<std::string> list_children(std::string_view folder) override {
    return base_->list_children(folder);
  }
  void put(std::string_view key, std::span<const std::byte> bytes) override {
    base_->put(key, bytes);
  }
  bool put_if_absent(std::string_view key, std::span<const std::byte> bytes) override {
    return base_->put_if_absent(key, bytes);
  }
  std::unique_ptr<store::Upload> start_upload(std::string_view key) override {
    return base_->start_upload(key);
  }
  void remove(std::string_view key) override { base_->remove(key); }

 private:
  std::optional<store::Bytes> count(std::optional<store::Bytes> bytes);
  std::shared_ptr<store::ObjectStore> base_;
  std::atomic<uint64_t> reads_{0}, bytes_{0};
};

}  // namespace craton::volume
