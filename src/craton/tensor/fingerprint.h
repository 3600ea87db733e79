#pragma once

#include <string>

namespace craton::tensor {

/// What the bits of a step depend on besides recipe and data, as one line: kernels, libtorch,
/// matrix library and the kernels it picked, and threads: "kernels=avx2-fma torch=1.13.1 cpu=AVX2
/// blas=OpenBLAS 0.3.21 ... Haswell threads=1 build=g++ 12.2.0". Workers with different
/// fingerprints must not share a job.
std::string fingerprint();

}  // namespace craton::tensor
