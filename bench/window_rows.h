#pragma once

#include <filesystem>
#include <string>

#include "bench_table.h"

namespace craton::bench {

/// The largest window that eight workers train on together, in units of the one that a single
/// worker trains on with the same memory per worker.
void add_largest_window(Table& table);

/// One step of recipes/sfm-million-tokens.yaml on `survey`, an MDIO volume, which is made if it is
/// not there (16 GiB): minutes, and memory of all workers.
void add_million_tokens(Table& table, const std::filesystem::path& survey);

}  // namespace craton::bench
