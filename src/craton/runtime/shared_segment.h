#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "craton/runtime/file.h"

namespace craton::runtime {

class SharedSegment;

/// A range of a segment, mapped for writing in this process. Given back when destroyed.
class SharedBlock {
 public:
  SharedBlock(const SharedBlock&) = delete;
  SharedBlock& operator=(const SharedBlock&) = delete;
  ~SharedBlock();
  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  /// Place within the segment: what a peer needs to find the bytes in its own mapping.
  uint64_t offset() const { return offset_; }
  uint64_t offset_of(const void* p) const {
    return offset_ + static_cast<uint64_t>(static_cast<const std::byte*>(p) - data_);
  }

 private:
  friend class SharedSegment;
  SharedBlock(std::shared_ptr<SharedSegment> segment, std::byte* data, size_t size, uint64_t offset)
      : segment_(std::move(segment)), data_(data), size_(size), offset_(offset) {}
  std::shared_ptr<SharedSegment> segment_;
  std::byte* data_;
  size_t size_;
  uint64_t offset_;
};

/// Memory that this process writes and others of the host read in place. It has no name anywhere:
/// it vanishes with the last process that maps it or holds its descriptor, also after kill -9.
/// Pages cost memory only once touched, and are returned when their block is freed. Thread-safe.
class SharedSegment : public std::enable_shared_from_this<SharedSegment> {
 public:
  static std::shared_ptr<SharedSegment> create();

  /// Zeroed, aligned to pages. Error kResourceExhausted when the system refuses.
  std::shared_ptr<SharedBlock> allocate(size_t bytes);

  /// The live block that holds all of [p, p + bytes), or null.
  std::shared_ptr<SharedBlock> find(const void* p, size_t bytes) const;

  /// A descriptor to hand to others: they can map it for reading only.
  FileDescriptor read_only_descriptor() const;

  /// From now on freed blocks keep their bytes, for others who may still be reading; the memory goes
  /// with the last mapping. For a process that is about to leave.
  void leave_contents() { leave_contents_.store(true); }

  /// Bytes in live blocks.
  uint64_t allocated_bytes() const;

 private:
  friend class SharedBlock;
  SharedSegment() = default;
  uint64_t take_range(size_t bytes, size_t alignment);
  void give_back(SharedBlock& block);

  FileDescriptor fd_;
  mutable std::shared_mutex mutex_;
  uint64_t end_ = 0;                   // size of the file
  std::map<uint64_t, uint64_t> free_;  // offset -> bytes, neighbours merged
  std::map<uintptr_t, std::weak_ptr<SharedBlock>> blocks_;
  uint64_t allocated_ = 0;
  std::atomic<bool> leave_contents_{false};
};

/// Another process's segment, mapped read-only. Addresses stay valid until the view is destroyed.
/// Thread-safe.
class SegmentView {
 public:
  explicit SegmentView(FileDescriptor fd) : fd_(std::move(fd)) {}
  SegmentView(const SegmentView&) = delete;
  SegmentView& operator=(const SegmentView&) = delete;
  ~SegmentView();

  /// Error kCorrupt when the segment does not reach that far.
  const std::byte* at(uint64_t offset, size_t bytes);

 private:
  struct Mapping {
    std::byte* data;
    uint64_t size;
  };
  FileDescriptor fd_;
  std::mutex mutex_;
  uint64_t known_size_ = 0;        // the segment is at least this long; it never shrinks
  std::vector<Mapping> mappings_;  // each from the segment's start, growing; old ones stay readable
};

}  // namespace craton::runtime
