#include "craton/volume/stream/metered_store.h"

namespace craton::volume {

std::optional<store::Bytes> MeteredStore::count(std::optional<store::Bytes> bytes) {
  ++reads_;
  if (bytes) bytes_ += bytes->size();
  return bytes;
}

std::optional<store::Bytes> MeteredStore::get(std::string_view key) {
  return count(base_->get(key));
}

std::optional<store::Bytes> MeteredStore::get_range(std::string_view key, uint64_t offset,
                                                    uint64_t length) {
  return count(base_->get_range(key, offset, length));
}

std::optional<store::Bytes> MeteredStore::get_suffix(std::string_view key, uint64_t length) {
  return count(base_->get_suffix(key, length));
}

std::optional<store::ObjectInfo> MeteredStore::head(std::string_view key) {
  ++reads_;
  return base_->head(key);
}

void MeteredStore::read_many(std::span<const store::ObjectRead> reads,
                             const store::ReadLimits& limits, const store::ReadSink& sink) {
  base_->read_many(reads, limits, [&](size_t i, const store::ObjectFound& found) {
    ++reads_;
    bytes_ += found.bytes.size();
    sink(i, found);
  });
}

}  // namespace craton::volume
