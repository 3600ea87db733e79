#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "bench_table.h"
#include "nginx_server.h"

namespace craton::bench {

/// Adds the rows about windows of a volume that `nginx` serves: against python3-zarr, where it is
/// installed; bytes per pass; memory of 1 and 32 readers; the start of a replacement whose node has
/// a cache, 20 ms away from the server.
void add_stream_rows(Table& table, const Nginx& nginx, int rounds);

/// The folder of the volumes that `add_stream_rows` makes below the server's root, made unless they
/// are there: MDIO v1 in Zarr v2 ("plain") and in v3 with shards ("sharded").
void make_volumes(const std::filesystem::path& root);

/// `craton bench stream ARGUMENTS`, and what it reports.
nlohmann::json bench_stream(const std::vector<std::string>& arguments,
                            const std::vector<std::string>& environment = {});

}  // namespace craton::bench
