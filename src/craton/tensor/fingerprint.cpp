#include "craton/tensor/fingerprint.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <set>

#include "craton/tensor/processor.h"
#include "craton/tensor/threads.h"
#include "craton/tensor/torch.h"

namespace at {
TORCH_API std::string show_config();  // of ATen/Version.h, which torch.h leaves out
}

namespace craton::tensor {
namespace {

/// The instruction set that libtorch's own kernels use: "AVX2", "AVX512", "NO AVX".
std::string torch_capability() {
  const std::string config = at::show_config(), key = "CPU capability usage: ";
  const size_t begin = config.find(key);
  if (begin == std::string::npos) return "unknown";
  return config.substr(begin + key.size(), config.find('\n', begin) - begin - key.size());
}

/// Adds what an OpenBLAS among the loaded libraries says about itself.
int ask_openblas(dl_phdr_info* info, size_t, void* found) {
  if (info->dlpi_name == nullptr || info->dlpi_name[0] == '\0') return 0;
  void* library = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return 0;
  if (void* config = dlsym(library, "openblas_get_config")) {
    std::string text = reinterpret_cast<char* (*)()>(config)();
    if (void* core = dlsym(library, "openblas_get_corename")) {
      text += fmt::format(" core {}", reinterpret_cast<char* (*)()>(core)());
    }
    static_cast<std::set<std::string>*>(found)->insert(std::move(text));
  }
  dlclose(library);
  return 0;
}

}  // namespace

std::string fingerprint() {
  std::set<std::string> blas;
  dl_iterate_phdr(ask_openblas, &blas);
  std::string blas_text;
  for (const std::string& one : blas) blas_text += (blas_text.empty() ? "" : "; ") + one;
  return fmt::format("kernels={} torch={} cpu={} blas=[{}] threads={} build={}", kernel_name(),
                     TORCH_VERSION, torch_capability(), blas_text.empty() ? "unknown" : blas_text,
                     threads(), __VERSION__);
}

}  // namespace craton::tensor
