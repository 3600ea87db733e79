#include "craton/runtime/shared_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "craton/base/error.h"

namespace craton::runtime {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kHugePage = 2 << 20;
constexpr uint64_t kSmallestView = 256 << 20;

uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

/// Maps a range of a file at an address that suits huge pages: those need the same place within a
/// huge page in memory as in the file. MAP_FAILED like mmap.
void* map_aligned(int fd, uint64_t offset, size_t size, int protection) {
  const size_t room = size + kHugePage;
  void* reserved =
      ::mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return MAP_FAILED;
  const auto begin = reinterpret_cast<uintptr_t>(reserved), end = begin + room;
  const uintptr_t start = round_up(begin, kHugePage), stop = start + round_up(size, kPage);
  void* data = ::mmap(reinterpret_cast<void*>(start), size, protection,
                      MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, static_cast<off_t>(offset));
  if (data == MAP_FAILED) {
    ::munmap(reserved, room);
    return MAP_FAILED;
  }
  if (start > begin) ::munmap(reserved, start - begin);
  if (end > stop) ::munmap(reinterpret_cast<void*>(stop), end - stop);
  ::madvise(data, size, MADV_HUGEPAGE);
  return data;
}

}  // namespace

std::shared_ptr<SharedSegment> SharedSegment::create() {
  std::shared_ptr<SharedSegment> segment(new SharedSegment);
  segment->fd_ = FileDescriptor(::memfd_create("craton", MFD_CLOEXEC));
  if (!segment->fd_.valid()) fail_errno("cannot create shared memory", errno);
  return segment;
}

uint64_t SharedSegment::take_range(size_t bytes, size_t alignment) {
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    const uint64_t start = round_up(it->first, alignment), end = it->first + it->second;
    if (start + bytes > end) continue;
    const uint64_t head = it->first;
    free_.erase(it);
    if (start > head) free_[head] = start - head;
    if (end > start + bytes) free_[start + bytes] = end - start - bytes;
    return start;
  }
  const uint64_t start = round_up(end_, alignment);
  if (::ftruncate(fd_.get(), static_cast<off_t>(start + bytes)) != 0) {
    fail(ErrorCode::kResourceExhausted, "cannot grow shared memory to {} bytes (error {})",
         start + bytes, errno);
  }
  if (start > end_) free_[end_] = start - end_;
  end_ = start + bytes;
  return start;
}

std::shared_ptr<SharedBlock> SharedSegment::allocate(size_t bytes) {
  if (bytes > (uint64_t{1} << 46)) {
    fail(ErrorCode::kResourceExhausted, "cannot share {} bytes of memory", bytes);
  }
  const size_t size = round_up(std::max<size_t>(bytes, 1), kPage);
  const bool large = size >= kHugePage;
  std::unique_lock lock(mutex_);
  const uint64_t offset = take_range(size, large ? kHugePage : kPage);
  void* data = large ? map_aligned(fd_.get(), offset, size, PROT_READ | PROT_WRITE)
                     : ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                              fd_.get(), static_cast<off_t>(offset));
  if (data == MAP_FAILED) {
    free_[offset] = size;
    fail(ErrorCode::kResourceExhausted, "cannot map {} bytes of shared memory (error {})", size,
         errno);
  }
  std::shared_ptr<SharedBlock> block(
      new SharedBlock(shared_from_this(), static_cast<std::byte*>(data), size, offset));
  blocks_[reinterpret_cast<uintptr_t>(data)] = block;
  allocated_ += size;
  return block;
}

std::shared_ptr<SharedBlock> SharedSegment::find(const void* p, size_t bytes) const {
  const auto address = reinterpret_cast<uintptr_t>(p);
  std::shared_ptr<SharedBlock> block;  // a last reference must go after the lock
  std::shared_lock lock(mutex_);
  auto it = blocks_.upper_bound(address);
  if (it == blocks_.begin()) return nullptr;
  block = std::prev(it)->second.lock();
  if (!block || address + bytes > std::prev(it)->first + block->size()) return nullptr;
  return block;
}

FileDescriptor SharedSegment::read_only_descriptor() const {
  const std::string path = "/proc/self/fd/" + std::to_string(fd_.get());
  FileDescriptor copy(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!copy.valid()) fail_errno("cannot reopen shared memory through /proc", errno);
  return copy;
}

uint64_t SharedSegment::allocated_bytes() const {
  std::shared_lock lock(mutex_);
  return allocated_;
}

void SharedSegment::give_back(SharedBlock& block) {
  const bool leave = leave_contents_.load();
  if (!leave) {
    // Outside of the lock: nobody else knows this range, and the kernel takes its time.
    ::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                static_cast<off_t>(block.offset_), static_cast<off_t>(block.size_));
  }
  std::unique_lock lock(mutex_);
  // Unmapped under the lock, so that a new block at this address cannot be entered before this one
  // has left.
  blocks_.erase(reinterpret_cast<uintptr_t>(block.data_));
  ::munmap(block.data_, block.size_);
  allocated_ -= block.size_;
  if (leave) return;
  uint64_t start = block.offset_, end = block.offset_ + block.size_;
  auto next = free_.lower_bound(start);
  if (next != free_.end() && next->first == end) {
    end += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    auto previous = std::prev(next);
    if (previous->first + previous->second == start) {
      previous->second = end - previous->first;
      return;
    }
  }
  free_[start] = end - start;
}

SharedBlock::~SharedBlock() { segment_->give_back(*this); }

SegmentView::~SegmentView() {
  for (const Mapping& mapping : mappings_) ::munmap(mapping.data, mapping.size);
}

const std::byte* SegmentView::at(uint64_t offset, size_t bytes) {
  std::lock_guard lock(mutex_);
  const uint64_t end = offset + bytes;
  if (end < offset || end > known_size_) {
    struct stat info;
    if (::fstat(fd_.get(), &info) != 0) fail_errno("cannot stat a peer's shared memory", errno);
    known_size_ = static_cast<uint64_t>(info.st_size);
    if (end < offset || end > known_size_) {
      fail(ErrorCode::kCorrupt, "a peer names bytes {}..{} of its {} bytes of shared memory",
           offset, end, known_size_);
    }
  }
  if (!mappings_.empty() && end <= mappings_.back().size) return mappings_.back().data + offset;
  // Room to grow costs only addresses; doubling keeps the number of mappings small.
  const uint64_t size = std::max(kSmallestView, round_up(2 * known_size_, kHugePage));
  void* data = map_aligned(fd_.get(), 0, size, PROT_READ);
  if (data == MAP_FAILED) {
    fail(ErrorCode::kResourceExhausted, "cannot map {} bytes of a peer's memory (error {})", size,
         errno);
  }
  mappings_.push_back({static_cast<std::byte*>(data), size});
  return mappings_.back().data + offset;
}

}  // namespace craton::runtime
