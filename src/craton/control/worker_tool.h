#pragma once

#include <string>
#include <vector>

namespace craton::control {

/// Runs a tool of the worker's program to its end, e.g. {"predict", ...}, with this process's input
/// and output and single-threaded kernels; returns its exit code (128 + signal when one ended it).
/// Interrupts are the tool's to handle: it gets those of the terminal, and SIGTERM when this
/// process gets it or ends.
int run_worker_tool(const std::string& program, const std::vector<std::string>& arguments,
                    const std::string& kernels);

}  // namespace craton::control
