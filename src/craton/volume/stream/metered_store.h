#pragma once

#include <atomic>
#include <memory>

#include "craton/store/wrapped_store.h"

namespace craton::volume {

/// Counts what another store is asked for and gives.
class MeteredStore final : public store::WrappedStore {
 public:
  explicit MeteredStore(std::shared_ptr<store::ObjectStore> base) : WrappedStore(std::move(base)) {}

  uint64_t reads() const { return reads_; }
  uint64_t bytes() const { return bytes_; }

  std::optional<store::Bytes> get(std::string_view key) override;
  std::optional<store::Bytes> get_range(std::string_view key, uint64_t offset,
                                        uint64_t length) override;
  std::optional<store::Bytes> get_suffix(std::string_view key, uint64_t length) override;
  std::optional<store::ObjectInfo> head(std::string_view key) override;
  void read_many(std::span<const store::ObjectRead> reads, const store::ReadLimits& limits,
                 const store::ReadSink& sink) override;

 private:
  std::optional<store::Bytes> count(std::optional<store::Bytes> bytes);
  std::atomic<uint64_t> reads_{0}, bytes_{0};
};

}  // namespace craton::volume
