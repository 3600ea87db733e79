#pragma once

#include "bench_table.h"
#include "nginx_server.h"

namespace craton::bench {

/// Adds the row about whole workers: how soon one that replaces another in a job has its first
/// batch, from the node's cache, against those that began the job; the server is 20 ms away.
void add_replacement_rows(Table& table, const Nginx& nginx, int rounds);

}  // namespace craton::bench
