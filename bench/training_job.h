#pragma once

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "craton/results/metrics.h"
#include "craton/runtime/process.h"

namespace craton::bench {

/// What `kernels: portable` sets for a worker, for whoever is compared with one: single-threaded
/// libraries and the same instructions.
std::vector<std::string> pinned_kernels();

/// Runs a program in `folder`. One that fails, or takes longer than `limit`,
/// ends the benchmark with what it said.
runtime::ProgramResult run_in(const std::filesystem::path& folder,
                              const std::vector<std::string>& argv,
                              std::vector<std::string> environment = pinned_kernels(),
                              std::chrono::seconds limit = std::chrono::minutes(20));

/// Trains a recipe anew in `folder` by `craton train`; the metrics of all steps.
std::vector<results::StepMetrics> train(const nlohmann::json& recipe,
                                        const std::filesystem::path& folder,
                                        const std::vector<std::string>& environment = {});

}  // namespace craton::bench
