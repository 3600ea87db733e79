#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace craton::control {

/// What a worker does with the pages of a large tensor that it lets go.
enum class FreedPages {
  kKept,      ///< for the next tensor: a step maps nothing anew
  kReturned,  ///< to the system: free pages of the wrong sizes take no memory
};

/// The environment in which the worker's program runs, as "NAME=value": this process's, with what
/// decides its kernels set anew. Kernels that pick themselves by processor give other bits on
/// another machine: with `portable` they are pinned, which only works before exec.
std::vector<std::string> worker_environment(const std::string& kernels, int64_t threads,
                                            FreedPages freed);

}  // namespace craton::control
