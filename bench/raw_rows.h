#pragma once

#include "bench_table.h"
#include "nginx_server.h"

namespace craton::bench {

/// Adds the rows about whole objects that `nginx` serves, eight at a time: rate and processor time,
/// against each of raw_peers.h that is installed.
void add_raw_rows(Table& table, const Nginx& nginx, int rounds, int repeats);

}  // namespace craton::bench
