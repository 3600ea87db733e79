#pragma once

#include "bench_table.h"
#include "nginx_server.h"

namespace craton::bench {

/// Adds the rows about windows of a volume that `nginx` serves: against python3-zarr, where it is
/// installed; bytes per pass; memory of 1 and 32 readers; the start of a replacement whose node has
/// a cache, 20 ms away from the server.
void add_stream_rows(Table& table, const Nginx& nginx, int rounds);

}  // namespace craton::bench
