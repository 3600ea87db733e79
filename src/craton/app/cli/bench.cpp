#include "craton/app/cli/bench_verbs.h"
#include "craton/app/cli/verbs.h"

namespace craton::app {

void add_bench(CLI::App& app) {
  CLI::App* bench = app.add_subcommand("bench", "Measure what this machine and a store can do");
  bench->require_subcommand(1);
  add_bench_stream(*bench);
  add_bench_parallel(*bench);
}

}  // namespace craton::app
