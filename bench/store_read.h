#pragma once

#include <cstddef>
#include <filesystem>

#include "bench_table.h"

namespace craton::bench {

/// Adds the rows of reading all of a store of 64^3 chunks against blosc alone on the same frames
/// from memory, on as many threads. The store is made below `folder`.
void add_store_read_rows(Table& table, const std::filesystem::path& folder, size_t threads);

}  // namespace craton::bench
