#pragma once

#include <string>

namespace craton::tensor {

/// What decides the bits of a worker besides recipe and data: kernels, libtorch, the BLAS kernel in
/// use, threads. Workers of one job must agree in it.
std::string fingerprint();

}  // namespace craton::tensor
