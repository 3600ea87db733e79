#include "craton/runtime/separate_pages.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdlib>
#include <memory>

namespace craton::runtime {
namespace {

constexpr size_t kMiB = 1 << 20;

size_t mapped() { return ::mallinfo2().hblks; }

TEST(SeparatePages, AreUsedWhileItLivesAndGivenBack) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizers have an allocator of their own";
#endif
  ::setenv("MALLOC_MMAP_THRESHOLD_", "1073741824", 1);  // as a worker has it from its start
  ::mallopt(M_MMAP_THRESHOLD, 1 << 30);
  const size_t before = mapped();
  auto in_heap = std::make_unique<char[]>(kMiB);
  EXPECT_EQ(mapped(), before);
  std::unique_ptr<char[]> apart;
  {
    const SeparatePages pages;
    apart = std::make_unique<char[]>(kMiB);
    EXPECT_EQ(mapped(), before + 1);
  }
  in_heap = std::make_unique<char[]>(2 * kMiB);
  EXPECT_EQ(mapped(), before + 1);
  apart.reset();
  EXPECT_EQ(mapped(), before);
  ::unsetenv("MALLOC_MMAP_THRESHOLD_");
}

TEST(SeparatePages, DoNothingWhereTheHeapIsAsUsual) {
  ::unsetenv("MALLOC_MMAP_THRESHOLD_");
  ::mallopt(M_MMAP_THRESHOLD, 1 << 30);
  const size_t before = mapped();
  const SeparatePages pages;
  const auto in_heap = std::make_unique<char[]>(kMiB);
  EXPECT_EQ(mapped(), before);
}

}  // namespace
}  // namespace craton::runtime
