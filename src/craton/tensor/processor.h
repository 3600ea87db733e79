#pragma once

#include <string_view>

namespace craton::tensor {

/// Whether the AVX2 + FMA kernels run: the processor has them, and neither use_portable_kernels nor
/// CRATON_KERNELS=portable in the environment forbids it.
bool vector_kernels();

/// Forces the portable kernels, or lifts the force again. For tests; not while kernels run.
void use_portable_kernels(bool portable);

/// "avx2-fma" or "portable". Other kernels give other bits.
std::string_view kernel_name();

}  // namespace craton::tensor
