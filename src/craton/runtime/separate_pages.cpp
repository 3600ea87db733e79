#include "craton/runtime/separate_pages.h"

#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

namespace craton::runtime {
namespace {

constexpr int kLargeBytes = 128 << 10;

int threshold_of_environment() {
  const char* text = std::getenv("MALLOC_MMAP_THRESHOLD_");
  if (text == nullptr) return 0;
  constexpr long long kMost = std::numeric_limits<int>::max();
  return static_cast<int>(std::clamp(std::atoll(text), 0LL, kMost));
}

}  // namespace

SeparatePages::SeparatePages() : threshold_(threshold_of_environment()) {
  if (threshold_ > kLargeBytes) ::mallopt(M_MMAP_THRESHOLD, kLargeBytes);
}

SeparatePages::~SeparatePages() {
  if (threshold_ > kLargeBytes) ::mallopt(M_MMAP_THRESHOLD, threshold_);
}

}  // namespace craton::runtime
