#pragma once

#include "bench_table.h"
#include "nginx_server.h"

namespace craton::bench {

/// Adds what 1, 2 and 4 nodes read together, each a network namespace behind a link of 100 Mbit/s
/// of its own. Left out, with a message, where namespaces cannot be made (it takes root).
void add_node_rows(Table& table, const Nginx& nginx, int rounds);

/// Adds the share of time that the demo's training waits for data from a real S3 server 20 ms away,
/// with the node's cache and without. Left out, with a message, where the server is not installed.
void add_demo_rows(Table& table);

}  // namespace craton::bench
