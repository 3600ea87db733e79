#include "craton/tensor/fingerprint.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace craton::tensor
