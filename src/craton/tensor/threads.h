#pragma once

namespace craton::tensor {

/// Sets the number of threads of everything below a model: libtorch and its OpenMP (of the calling
/// thread), and every OpenBLAS in the process. libtorch's own setting does not reach OpenBLAS's
/// threads, and a sum's order, so its bits, depends on how many share it: call this once at the
/// start, and again in each thread that computes. n is at least 1.
void set_threads(int n);

/// The number of threads that kernels use in the calling thread.
int threads();

}  // namespace craton::tensor
