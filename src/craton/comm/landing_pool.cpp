#include "craton/comm/landing_pool.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "craton/base/error.h"

namespace craton::comm {

void LandingPool::Free::operator()(std::byte* p) const { std::free(p); }

Landing LandingPool::take(size_t bytes) {
  const size_t size = std::bit_ceil(std::max<size_t>(bytes, 4096));
  Memory memory;
  {
    std::lock_guard lock(mutex_);
    if (size > lend_ - lent_) {
      fail(ErrorCode::kResourceExhausted, "{} bytes of messages are in copies, the limit is {}",
           lent_ + size, lend_);
    }
    lent_ += size;
    auto& free = free_[size];
    if (!free.empty()) {
      memory = std::move(free.back());
      free.pop_back();
      pooled_ -= size;
    }
  }
  if (!memory) memory.reset(static_cast<std::byte*>(std::aligned_alloc(64, size)));
  if (!memory) {
    std::lock_guard lock(mutex_);
    lent_ -= size;
    fail(ErrorCode::kResourceExhausted, "no memory for a message of {} bytes", bytes);
  }
  std::byte* raw = memory.release();
  return {raw,
          [self = shared_from_this(), size](std::byte* p) { self->give_back(Memory(p), size); }};
}

void LandingPool::give_back(Memory memory, size_t size) {
  std::lock_guard lock(mutex_);
  lent_ -= size;
  if (pooled_ + size > keep_) return;
  pooled_ += size;
  free_[size].push_back(std::move(memory));
}

}  // namespace craton::comm
