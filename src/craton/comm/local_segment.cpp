#include "craton/comm/local_segment.h"

#include <algorithm>
#include <bit>

#include "craton/base/error.h"

namespace craton::comm {
namespace {
constexpr size_t kSmallestStage = 4 << 10;
constexpr uint64_t kPoolLimit = 128 << 20;
}  // namespace

LocalSegment::LocalSegment(uint64_t incarnation, uint64_t staging_limit)
    : memory_(runtime::SharedSegment::create()),
      header_(memory_->allocate(sizeof(SegmentHeader))),
      staging_limit_(staging_limit) {
  new (header_->data()) SegmentHeader{kSegmentMagic, incarnation, {0}};
}

bool LocalSegment::reserve(size_t size) {
  std::lock_guard lock(mutex_);
  if (used_ + size > staging_limit_) return false;
  used_ += size;
  return true;
}

std::shared_ptr<runtime::SharedBlock> LocalSegment::stage(size_t bytes) {
  const size_t size = std::bit_ceil(std::max(bytes, kSmallestStage));
  if (!reserve(size)) {
    if (collect_) collect_();
    if (!reserve(size)) {
      fail(ErrorCode::kResourceExhausted,
           "copies that wait for peers would pass {} bytes; send from buffers of the endpoint",
           staging_limit_);
    }
  }
  std::shared_ptr<runtime::SharedBlock> block;
  {
    std::lock_guard lock(mutex_);
    auto& free = free_[size];
    if (!free.empty()) {
      block = std::move(free.back());
      free.pop_back();
      pooled_ -= size;
    }
  }
  try {
    if (!block) block = memory_->allocate(size);
  } catch (...) {
    std::lock_guard lock(mutex_);
    used_ -= size;
    throw;
  }
  auto* raw = block.get();
  return {raw, [self = shared_from_this(), block = std::move(block)](auto*) mutable {
            self->give_back(std::move(block));
          }};
}

void LocalSegment::give_back(std::shared_ptr<runtime::SharedBlock> block) {
  std::lock_guard lock(mutex_);
  used_ -= block->size();
  if (pooled_ + block->size() > kPoolLimit) return;  // the block frees its range
  pooled_ += block->size();
  free_[block->size()].push_back(std::move(block));
}

}  // namespace craton::comm
