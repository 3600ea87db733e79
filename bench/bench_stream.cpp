// Reading from object storage, from nginx on loopback: raw objects against eight parallel curl
// processes and what is installed of the S3 clients of others; decoded chunks against blosc alone;
// windows in training order against python3-zarr, with the bytes and the memory that they cost.
// Rounds alternate. Processor time is shown beside the raw rate: on a machine that is busy
// elsewhere it is the steadier figure.

#include <CLI/CLI.hpp>
#include <cstdio>

#include "bench_table.h"
#include "craton/runtime/file.h"
#include "craton/runtime/thread_pool.h"
#include "distance_rows.h"
#include "nginx_server.h"
#include "raw_rows.h"
#include "replacement_rows.h"
#include "store_read.h"
#include "stream_rows.h"

using namespace craton;

int main(int argc, char** argv) {
  int rounds = 5, repeats = 4;
  std::string json, only;
  CLI::App app("Reading from object storage");
  app.add_option("--rounds", rounds, "Alternating rounds")->capture_default_str();
  app.add_option("--repeats", repeats, "Reads of each object per round")->capture_default_str();
  app.add_option("--json", json, "Write the rows to this file");
  app.add_option("--only", only, "Some rows: raw, decode, windows, replacement, nodes or demo")
      ->check(CLI::IsMember({"raw", "decode", "windows", "replacement", "nodes", "demo"}));
  CLI11_PARSE(app, argc, argv);

  try {
    const bench::Nginx nginx;
    bench::Table table("bench_stream");
    if (only.empty() || only == "raw") bench::add_raw_rows(table, nginx, rounds, repeats);
    if (only.empty() || only == "decode") {
      const runtime::TemporaryDirectory folder;
      bench::add_store_read_rows(table, folder.path(), runtime::available_cores());
    }
    if (only.empty() || only == "windows")
      bench::add_stream_rows(table, nginx, std::min(rounds, 3));
    if (only.empty() || only == "replacement")
      bench::add_replacement_rows(table, nginx, std::min(rounds, 3));
    if (only.empty() || only == "nodes") bench::add_node_rows(table, nginx, std::min(rounds, 3));
    if (only.empty() || only == "demo") bench::add_demo_rows(table);
    table.print();
    table.write_json(json);
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_stream: %s\n", e.what());
    return 1;
  }
}
