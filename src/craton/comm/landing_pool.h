#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace craton::comm {

/// Memory for a message; goes back to its pool when the last copy is gone.
using Landing = std::shared_ptr<std::byte>;

/// Reuses memory of received messages, so that a step allocates nothing new. Thread-safe.
class LandingPool : public std::enable_shared_from_this<LandingPool> {
 public:
  /// Keeps at most `keep` bytes of unused memory, and lends at most `lend` at once.
  LandingPool(uint64_t keep, uint64_t lend) : keep_(keep), lend_(lend) {}
  /// 64-byte aligned, not zeroed. Error kResourceExhausted past the limit.
  Landing take(size_t bytes);

 private:
  struct Free {
    void operator()(std::byte* p) const;
  };
  using Memory = std::unique_ptr<std::byte, Free>;
  void give_back(Memory memory, size_t size);

  const uint64_t keep_, lend_;
  std::mutex mutex_;
  std::map<size_t, std::vector<Memory>> free_;
  uint64_t pooled_ = 0, lent_ = 0;
};

}  // namespace craton::comm
