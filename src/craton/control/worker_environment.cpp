#include "craton/control/worker_environment.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string_view>

namespace craton::control {

std::vector<std::string> worker_environment(const std::string& kernels, int64_t threads,
                                            FreedPages freed) {
  std::vector<std::string> out;
  static constexpr std::string_view kOwn[] = {"OPENBLAS_CORETYPE=",
                                              "ATEN_CPU_CAPABILITY=",
                                              "ONEDNN_MAX_CPU_ISA=",
                                              "OPENBLAS_NUM_THREADS=",
                                              "OMP_NUM_THREADS=",
                                              "OPENBLAS_L2_SIZE=",
                                              "MALLOC_",
                                              "CRATON_JOB_STARTED_MS=",
                                              "CRATON_FAULTS="};
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (std::none_of(std::begin(kOwn), std::end(kOwn),
                     [&](std::string_view name) { return text.starts_with(name); }))
      out.emplace_back(text);
  }
  if (kernels == "portable") {
    out.insert(out.end(), {"OPENBLAS_CORETYPE=Haswell", "ATEN_CPU_CAPABILITY=avx2",
                           "ONEDNN_MAX_CPU_ISA=AVX2"});
  }
  out.push_back(fmt::format("OPENBLAS_NUM_THREADS={}", threads));
  out.push_back(fmt::format("OMP_NUM_THREADS={}", threads));
  // All workers that this process starts belong to one run of the job: what one of them has
  // compared with the store, its successors need not compare again.
  static const int64_t started = std::chrono::duration_cast<std::chrono::milliseconds>(
                                     std::chrono::system_clock::now().time_since_epoch())
                                     .count();
  out.push_back(fmt::format("CRATON_JOB_STARTED_MS={}", started));
  // Large tensors come and go every step. In the heap their pages are mapped once, but it grows by
  // what falls between tensors of other sizes; with mappings of their own that is reversed.
  if (freed == FreedPages::kKept) {
    out.insert(out.end(), {"MALLOC_MMAP_THRESHOLD_=1073741824", "MALLOC_TRIM_THRESHOLD_=4294967296",
                           "MALLOC_TOP_PAD_=67108864"});
  } else {
    out.insert(out.end(), {"MALLOC_MMAP_THRESHOLD_=1048576", "MALLOC_TRIM_THRESHOLD_=16777216"});
  }
  return out;
}

}  // namespace craton::control
