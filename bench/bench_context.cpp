// Ring attention over workers against the same kernel in one worker: time per worker and pair of
// tokens, forward and backward. Workers are threads with endpoints of their own, one core each, in
// turns with as many single workers, each with the whole context of its own: so both have all cores
// busy, and share their caches and clock alike. What that costs a worker is printed too. Then
// how far a window grows with the workers that share it.

#include <CLI/CLI.hpp>
#include <chrono>
#include <thread>

#include "bench_table.h"
#include "craton/parallel/context_peers.h"
#include "craton/tensor/attention.h"
#include "craton/tensor/threads.h"
#include "window_rows.h"

namespace {

using namespace craton;
using torch::Tensor;

struct Shape {
  int64_t tokens = 16384, heads = 2, kv_heads = 2, head_dim = 64;
  bool causal = false;
};

struct Values {
  Tensor q, k, v, d_out;
};

Values make_values(const Shape& s, int64_t tokens) {
  const auto make = [&](int64_t heads) { return torch::randn({1, tokens, heads, s.head_dim}); };
  return {make(s.heads).requires_grad_(), make(s.kv_heads).requires_grad_(),
          make(s.kv_heads).requires_grad_(), make(s.heads)};
}

double attend_seconds(const Shape& s, Values& x) {
  for (Tensor* t : {&x.q, &x.k, &x.v}) t->mutable_grad() = Tensor();
  tensor::AttentionOptions options;
  options.causal = s.causal;
  const auto begin = std::chrono::steady_clock::now();
  tensor::attention(x.q, x.k, x.v, options).backward(x.d_out);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

struct Round {
  double seconds = 0;  ///< of the slowest worker
  double waited = 0;   ///< of it, for pieces that had not arrived
};

/// One forward and backward over `workers`.
Round ring_round(const Shape& s, int workers) {
  std::vector<std::unique_ptr<comm::Endpoint>> endpoints;
  comm::Group group;
  group.generation = Generation(1);
  for (int r = 0; r < workers; ++r) {
    endpoints.push_back(std::make_unique<comm::Endpoint>());
    group.members.push_back(endpoints.back()->address());
  }
  std::vector<Round> rounds(static_cast<size_t>(workers));
  std::vector<std::thread> threads;
  for (int r = 0; r < workers; ++r) {
    threads.emplace_back([&, r] {
      tensor::set_threads(1);
      comm::Group own = group;
      own.self = Rank(r);
      auto& endpoint = *endpoints[static_cast<size_t>(r)];
      const auto communicator = endpoint.join(own);
      std::vector<Rank> ranks;
      for (int i = 0; i < workers; ++i) ranks.push_back(Rank(i));
      const auto layout = s.causal ? tensor::zigzag_layout(s.tokens, workers)
                                   : tensor::contiguous_layout(s.tokens, workers);
      Values x = make_values(s, s.tokens / workers);
      parallel::CommunicatorPeers peers(*communicator, endpoint, ranks);
      const tensor::ContextScope scope(peers, layout);
      attend_seconds(s, x);  // touches all memory once; ends with both in step
      const double before = peers.seconds_waited();
      rounds[static_cast<size_t>(r)].seconds = attend_seconds(s, x);
      rounds[static_cast<size_t>(r)].waited = peers.seconds_waited() - before;
    });
  }
  for (auto& thread : threads) thread.join();
  return *std::max_element(rounds.begin(), rounds.end(),
                           [](const Round& a, const Round& b) { return a.seconds < b.seconds; });
}

/// Seconds of the slowest of single workers that compute at the same time, one for each of
/// `values`.
double single_workers(const Shape& s, std::vector<Values>& values) {
  std::vector<double> seconds(values.size());
  std::vector<std::thread> threads;
  for (size_t w = 0; w < values.size(); ++w) {
    threads.emplace_back([&, w] {
      tensor::set_threads(1);
      seconds[w] = attend_seconds(s, values[w]);
    });
  }
  for (auto& thread : threads) thread.join();
  return *std::max_element(seconds.begin(), seconds.end());
}

void measure(const std::string& what, const Shape& s, int workers, int rounds, double reach,
             bench::Table& table) {
  std::vector<double> together, ring, waited;
  std::vector<Values> all;
  all.push_back(make_values(s, s.tokens));
  const double alone = single_workers(s, all);
  for (int w = 1; w < workers; ++w) all.push_back(make_values(s, s.tokens));
  for (int k = 0; k < rounds; ++k) {
    const Round round = ring_round(s, workers);
    ring.push_back(round.seconds);
    waited.push_back(round.waited / round.seconds);
    together.push_back(single_workers(s, all));
  }
  // Each worker has 1/C of the queries, so 1/C of the pairs.
  const double pairs = static_cast<double>(s.tokens) * static_cast<double>(s.tokens) / 1e6;
  table.add_ratio(fmt::format("{}, {} tokens, {} workers", what, s.tokens, workers), "Mpairs/s",
                  bench::Better::kHigher, pairs / workers / bench::median(ring),
                  pairs / bench::median(together), reach);
  fmt::print("{}: a worker with all cores busy has {:.1f} % of the rate of one alone\n", what,
             100 * alone / bench::median(together));
  table.add_absolute("  waiting for keys and values", "%", bench::Better::kLower,
                     100 * bench::median(waited), 5);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Ring attention against one worker");
  std::string json_path, survey;
  bool ring = true, window = true;
  int rounds = 3;
  int64_t tokens = 16384;
  app.add_option("--json", json_path, "Also write the table to this file");
  app.add_option("--rounds", rounds, "Turns that each of the two gets")->check(CLI::Range(1, 100));
  app.add_option("--tokens", tokens, "Of the whole context")->check(CLI::Range(64, 1 << 20));
  app.add_flag("!--no-ring", ring, "Leave the speed of ring attention out");
  app.add_flag("!--no-window", window, "Leave the largest window out");
  app.add_option("--million", survey,
                 "Also the step of 1,179,648 tokens, on this survey; it is made if it is not there "
                 "(16 GiB)");
  CLI11_PARSE(app, argc, argv);
  tensor::set_threads(1);
  torch::manual_seed(1);
  bench::Table table("bench_context");
  if (ring) {
    measure("ring attention, forward + backward", {tokens}, 2, rounds, 0.95, table);
    measure("grouped queries", {tokens, 4, 1}, 2, rounds, 0.95, table);
    measure("causal, zigzag", {tokens, 2, 2, 64, true}, 2, rounds, 0.95, table);
  }
  if (window) bench::add_largest_window(table);
  if (!survey.empty()) bench::add_million_tokens(table, survey);
  table.print();
  table.write_json(json_path);
}
