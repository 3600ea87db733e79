// Attention of 8,192 tokens x 6 heads x 64, forward and backward, against dense attention in
// libtorch: time and memory. Runs alternate between the two; figures are medians. Pinned like a
// worker: run it through tools or with OPENBLAS_NUM_THREADS=1, OPENBLAS_CORETYPE=Haswell,
// ATEN_CPU_CAPABILITY=avx2.
#include <fcntl.h>
#include <malloc.h>
#include <time.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <fstream>
#include <functional>

#include "bench_table.h"
#include "craton/tensor/attention.h"
#include "craton/tensor/fingerprint.h"
#include "craton/tensor/threads.h"
#include "craton/tensor/torch.h"

namespace {

using craton::bench::Better;
using torch::Tensor;

/// As in a textbook transformer: [batch, tokens, heads, dim] -> matmul, softmax, matmul.
Tensor dense_attention(const Tensor& q, const Tensor& k, const Tensor& v) {
  const Tensor scores = torch::matmul(q.transpose(1, 2), k.transpose(1, 2).transpose(2, 3)) *
                        (1 / std::sqrt(double(q.size(3))));
  return torch::matmul(torch::softmax(scores, -1), v.transpose(1, 2)).transpose(1, 2).contiguous();
}

Tensor our_attention(const Tensor& q, const Tensor& k, const Tensor& v) {
  return craton::tensor::attention(q, k, v);
}

using Attention = Tensor (*)(const Tensor&, const Tensor&, const Tensor&);

struct Problem {
  int64_t tokens, heads, head_dim;
};

double now(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

/// Seconds of one forward and backward pass.
double seconds(Attention attend, const Problem& p, clockid_t clock) {
  torch::manual_seed(1);
  const auto input = [&] {
    return torch::randn({1, p.tokens, p.heads, p.head_dim}).requires_grad_();
  };
  const Tensor q = input(), k = input(), v = input(),
               d_out = torch::randn({1, p.tokens, p.heads, p.head_dim});
  const double start = now(clock);
  attend(q, k, v).backward(d_out);
  return now(clock) - start;
}

/// A line of /proc/self/status in bytes.
double status_bytes(const std::string& key) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(key, 0) == 0) return 1024 * std::stod(line.substr(key.size() + 1));
  }
  return 0;
}

/// Peak resident memory of one pass above what was resident before it: result, gradients and
/// scratch.
double peak_bytes(Attention attend, const Problem& p) {
  const auto input = [&] {
    return torch::randn({1, p.tokens, p.heads, p.head_dim}).requires_grad_();
  };
  const Tensor q = input(), k = input(), v = input(),
               d_out = torch::randn({1, p.tokens, p.heads, p.head_dim});
  const int reset =
      open("/proc/self/clear_refs", O_WRONLY);  // "5" sets the peak to what is resident now
  if (reset < 0 || write(reset, "5", 1) != 1)
    fmt::print(stderr, "cannot reset the peak of resident memory\n");
  if (reset >= 0) close(reset);
  const double before = status_bytes("VmRSS:");
  attend(q, k, v).backward(d_out);
  return status_bytes("VmHWM:") - before;
}

struct Runs {
  int count;
  clockid_t clock;
};

void measure(craton::bench::Table& table, const Problem& p, const Runs& runs, double reach,
             bool memory) {
  const std::string name =
      fmt::format("attention {} tokens x {} x {}, forward+backward", p.tokens, p.heads, p.head_dim);
  if (memory) {
    const double ours = peak_bytes(our_attention, p), dense = peak_bytes(dense_attention, p);
    table.add_ratio(name + ", peak memory", "MiB", Better::kLower, ours / (1 << 20),
                    dense / (1 << 20), 50);
  }
  std::vector<double> ours, dense;
  seconds(our_attention, {256, p.heads, p.head_dim}, runs.clock);
  seconds(dense_attention, {256, p.heads, p.head_dim}, runs.clock);
  for (int i = 0; i < runs.count; ++i) {
    ours.push_back(seconds(our_attention, p, runs.clock));
    dense.push_back(seconds(dense_attention, p, runs.clock));
  }
  table.add_ratio(name, "s", Better::kLower, craton::bench::median(ours),
                  craton::bench::median(dense), reach);
  const double work =
      14.0 * double(p.tokens) * double(p.tokens) * double(p.heads * p.head_dim);  // 7 products
  table.add_absolute(name + ", rate", "GFLOP/s", Better::kHigher,
                     work / craton::bench::median(ours) / 1e9, 0);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Attention against dense attention in libtorch");
  std::string json;
  int runs = 3, threads = 1;
  int64_t tokens = 8192;
  bool cpu_time = false;
  app.add_option("--json", json, "write the rows to this file");
  app.add_option("--runs", runs, "runs of each, alternating");
  app.add_option("--threads", threads, "threads of both");
  app.add_option("--tokens", tokens, "tokens of the main row");
  app.add_flag("--cpu-time", cpu_time,
               "count processor time, which other load on the machine disturbs less");
  CLI11_PARSE(app, argc, argv);
  craton::tensor::set_threads(threads);
  fmt::print("{}\n", craton::tensor::fingerprint());
  craton::bench::Table table("attention");
  const clockid_t clock = cpu_time ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC;
  measure(table, {tokens, 6, 64}, {runs, clock}, 2.5, true);
  measure(table, {2048, 6, 64}, {2 * runs + 1, clock}, 1.5, false);
  measure(table, {256, 6, 64}, {15 * runs, clock}, 1, false);
  table.print();
  table.write_json(json);
}
