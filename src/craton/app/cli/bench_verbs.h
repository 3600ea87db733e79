#pragma once

#include <CLI/CLI.hpp>

namespace craton::app {

/// The sub-verbs of `craton bench`; each adds itself below `bench`.
void add_bench_stream(CLI::App& bench);
void add_bench_parallel(CLI::App& bench);

}  // namespace craton::app
