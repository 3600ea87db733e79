#include "craton/tensor/threads.h"

#include <dlfcn.h>
#include <link.h>

#include "craton/base/check.h"
#include "craton/tensor/torch.h"

namespace craton::tensor {
namespace {

/// A process may hold several copies of OpenBLAS under different names, each with threads of its
/// own.
int set_openblas_threads(dl_phdr_info* info, size_t, void* count) {
  if (info->dlpi_name == nullptr || info->dlpi_name[0] == '\0') return 0;
  void* library = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return 0;
  if (void* symbol = dlsym(library, "openblas_set_num_threads")) {
    reinterpret_cast<void (*)(int)>(symbol)(*static_cast<int*>(count));
  }
  dlclose(library);
  return 0;
}

}  // namespace

void set_threads(int n) {
  CRATON_CHECK(n >= 1, "threads {}", n);
  at::set_num_threads(n);
  dl_iterate_phdr(set_openblas_threads, &n);
}

int threads() { return at::get_num_threads(); }

}  // namespace craton::tensor
