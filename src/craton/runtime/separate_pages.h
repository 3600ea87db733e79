#pragma once

namespace craton::runtime {

/// While it lives, large allocations of this process get pages of their own, which go back to the
/// system as soon as they are freed. For much memory that is needed once: in a heap that keeps what
/// is freed (MALLOC_MMAP_THRESHOLD_, as workers have it) it would leave holes of its sizes, and
/// later allocations would spread over all of them. Does nothing where that is not set.
///
/// For the whole process, so one at a time, and on one thread.
class SeparatePages {
 public:
  SeparatePages();
  SeparatePages(const SeparatePages&) = delete;
  SeparatePages& operator=(const SeparatePages&) = delete;
  ~SeparatePages();

 private:
  const int threshold_;  ///< bytes, as it is without this; 0: not set
};

}  // namespace craton::runtime
