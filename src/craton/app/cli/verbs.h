#pragma once

#include <CLI/CLI.hpp>

namespace craton::app {

/// Each verb of the command line adds its subcommand, options, help with examples, and callback.
/// One file per verb.
void add_volume(CLI::App& app);
void add_train(CLI::App& app);
void add_predict(CLI::App& app);
void add_store(CLI::App& app);
void add_bench(CLI::App& app);
void add_cache(CLI::App& app);
void add_plan(CLI::App& app);
void add_resume(CLI::App& app);
void add_jobs(CLI::App& app);
void add_status(CLI::App& app);
void add_top(CLI::App& app);
void add_events(CLI::App& app);
void add_scale(CLI::App& app);
void add_drain(CLI::App& app);
void add_agent(CLI::App& app);

/// Shown by `craton --version`.
const char* version();

}  // namespace craton::app
