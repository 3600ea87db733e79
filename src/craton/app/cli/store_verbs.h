#pragma once

#include <CLI/CLI.hpp>

namespace craton::app {

void add_store_ls(CLI::App& store);
void add_store_cp(CLI::App& store);
void add_store_cat(CLI::App& store);
void add_store_check(CLI::App& store);

}  // namespace craton::app
