#include "craton/tensor/fingerprint.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>

#include "craton/tensor/processor.h"
#include "craton/tensor/threads.h"
#include "craton/tensor/torch.h"

namespace craton::tensor {
namespace {

/// The name of the kernels that OpenBLAS has picked, e.g. "Haswell"; "other" for another BLAS.
std::string blas_kernels() {
  using Corename = const char* (*)();
  for (const char* name : {"openblas_get_corename", "openblas_get_corename64_"}) {
    if (const auto corename = reinterpret_cast<Corename>(::dlsym(RTLD_DEFAULT, name)))
      return corename();
  }
  return "other";
}

/// What pins libtorch's own kernels; empty: they pick themselves.
std::string from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : "native";
}

}  // namespace

std::string fingerprint() {
  return fmt::format("craton {} torch {} aten {} blas {} threads {}", kernel_name(), TORCH_VERSION,
                     from_environment("ATEN_CPU_CAPABILITY"), blas_kernels(), threads());
}

}  // namespace craton::tensor
