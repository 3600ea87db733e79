#include "craton/tensor/processor.h"

#include <atomic>
#include <cstdlib>

namespace craton::tensor {
namespace {

bool detect() {
#if defined(__x86_64__)
  const char* wish = std::getenv("CRATON_KERNELS");
  if (wish != nullptr && std::string_view(wish) == "portable") return false;
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

std::atomic<bool> forced_portable{false};

}  // namespace

bool vector_kernels() {
  static const bool available = detect();
  return available && !forced_portable.load(std::memory_order_relaxed);
}

void use_portable_kernels(bool portable) { forced_portable.store(portable); }

std::string_view kernel_name() { return vector_kernels() ? "avx2-fma" : "portable"; }

}  // namespace craton::tensor
