#include "craton/tensor/fingerprint.h"

#include <gtest/gtest.h>

#include <array>
#include <thread>

#include "craton/tensor/processor.h"
#include "craton/tensor/threads.h"
#include "craton/tensor/torch.h"

namespace craton::tensor {
namespace {

TEST(Fingerprint, ChangesWithThreadsAndKernels) {
  set_threads(1);
  const std::string one = fingerprint();
  EXPECT_NE(one.find(TORCH_VERSION), std::string::npos) << one;
  EXPECT_EQ(one, fingerprint());
  set_threads(2);
  EXPECT_EQ(threads(), 2);
  EXPECT_NE(one, fingerprint());
  set_threads(1);
  if (vector_kernels()) {
    use_portable_kernels(true);
    EXPECT_NE(one, fingerprint());
    use_portable_kernels(false);
  }
  EXPECT_EQ(one, fingerprint());
}

TEST(Threads, ShareTheKernelsOfThisLibrary) {
  set_threads(2);
  std::array<std::thread::id, 2> ran_on;
  at::parallel_for(0, 2, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      ran_on[static_cast<size_t>(i)] = std::this_thread::get_id();
  });
  set_threads(1);
  EXPECT_NE(ran_on[0], ran_on[1]);
}

}  // namespace
}  // namespace craton::tensor
