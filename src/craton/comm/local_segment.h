#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "craton/runtime/shared_segment.h"

namespace craton::comm {

/// Stands at offset 0 of every worker's segment.
struct SegmentHeader {
  uint64_t magic;
  uint64_t incarnation;
  /// Generations below it are over for this worker: bytes that it offered in them may change.
  std::atomic<uint64_t> floor;
};
inline constexpr uint64_t kSegmentMagic = 0x314745534e544152;

/// The segment of this worker with its header, and blocks for copies of what callers send from
/// ordinary memory. Thread-safe.
class LocalSegment : public std::enable_shared_from_this<LocalSegment> {
 public:
  LocalSegment(uint64_t incarnation, uint64_t staging_limit);
  /// Set once, before the first `stage`; called without a lock held.
  void on_full(std::function<void()> collect) { collect_ = std::move(collect); }

  runtime::SharedSegment& memory() { return *memory_; }
  const std::shared_ptr<runtime::SharedSegment>& share() const { return memory_; }
  SegmentHeader& header() { return *reinterpret_cast<SegmentHeader*>(header_->data()); }

  /// At least `bytes`, not zeroed; goes back to the pool with its last copy. Past the limit, frees
  /// by `collect` what peers have read, then error kResourceExhausted.
  std::shared_ptr<runtime::SharedBlock> stage(size_t bytes);

 private:
  bool reserve(size_t size);
  void give_back(std::shared_ptr<runtime::SharedBlock> block);

  std::shared_ptr<runtime::SharedSegment> memory_;
  std::shared_ptr<runtime::SharedBlock> header_;
  const uint64_t staging_limit_;
  std::function<void()> collect_;
  std::mutex mutex_;
  std::map<size_t, std::vector<std::shared_ptr<runtime::SharedBlock>>> free_;  // by size
  uint64_t used_ = 0, pooled_ = 0;
};

}  // namespace craton::comm
