#include "distance_rows.h"

#include <unistd.h>

#include <cstdio>
#include <list>

#include "bench_job.h"
#include "craton/results/metrics.h"
#include "craton/runtime/running_program.h"
#include "stream_rows.h"
#include "tests/servers/delay_proxy.h"
#include "tests/servers/s3_server.h"

namespace craton::bench {

namespace {

namespace fs = std::filesystem;

constexpr int kMostNodes = 4;
constexpr const char* kLinkRate = "100mbit";
constexpr int kSteps = 60, kWarmUpSteps = 20;

bool run_quietly(const std::vector<std::string>& command) {
  return runtime::run_program(command).exit_code == 0;
}

/// A network namespace whose way from here has a rate of its own; gone with its owner.
class Node {
 public:
  explicit Node(int number)
      : name_(fmt::format("craton{}n{}", ::getpid() % 10000, number)),
        here_(fmt::format("10.79.{}.1", number)),
        there_(fmt::format("10.79.{}.2", number)) {
    const std::string inside = name_ + "i";
    const std::vector<std::vector<std::string>> steps = {
        {"ip", "netns", "add", name_},
        {"ip", "link", "add", name_, "type", "veth", "peer", "name", inside},
        {"ip", "link", "set", inside, "netns", name_},
        {"ip", "address", "add", here_ + "/24", "dev", name_},
        {"ip", "link", "set", name_, "up"},
        {"ip", "-n", name_, "address", "add", there_ + "/24", "dev", inside},
        {"ip", "-n", name_, "link", "set", inside, "up"},
        {"ip", "-n", name_, "link", "set", "lo", "up"},
        {"tc", "qdisc", "add", "dev", name_, "root", "tbf", "rate", kLinkRate, "burst", "64kb",
         "latency", "50ms"}};
    for (const auto& step : steps) {
      if (run_quietly(step)) continue;
      works_ = false;
      return;
    }
  }
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  ~Node() {
    run_quietly({"ip", "link", "del", name_});
    run_quietly({"ip", "netns", "del", name_});
  }
  bool works() const { return works_; }
  const std::string& name() const { return name_; }
  const std::string& address_of_server() const { return here_; }

 private:
  std::string name_, here_, there_;
  bool works_ = true;
};

/// GB/s of compressed chunks that the first `count` nodes read at the same time.
double read_together(const std::list<Node>& nodes, int count, uint16_t port) {
  const runtime::TemporaryDirectory folder;
  std::list<runtime::RunningProgram> running;
  auto node = nodes.begin();
  for (int n = 0; n < count; ++n, ++node) {
    running.emplace_back(std::vector<std::string>{
        "ip", "netns", "exec", node->name(), craton_program(), "bench", "stream",
        fmt::format("http://{}:{}/plain", node->address_of_server(), port), "--seconds", "8",
        "--threads", "1", "--budget", "256MiB", "--json",
        (folder.path() / std::to_string(n)).string()});
  }
  double sum = 0;
  int n = 0;
  for (auto& program : running) {
    const auto result = program.wait(std::chrono::minutes(10));
    if (!result || result->exit_code != 0)
      throw std::runtime_error("a node: " + (result ? result->errors : "no end"));
    const auto figures =
        nlohmann::json::parse(runtime::read_text(folder.path() / std::to_string(n++)));
    sum += figures["raw_gb_per_second"].get<double>();
  }
  return sum;
}

/// Seconds waited over seconds of the steps after the warm-up, of the worker that reports.
double share_of_waiting(const fs::path& metrics) {
  double waited = 0, seconds = 0;
  for (const results::StepMetrics& step : results::read_metrics(metrics)) {
    if (step.step <= kWarmUpSteps) continue;
    waited += step.data_wait_seconds;
    seconds += step.seconds;
  }
  if (seconds == 0) throw std::runtime_error("the demo did no step after its warm-up");
  return waited / seconds;
}

}  // namespace

void add_node_rows(Table& table, const Nginx& nginx, int rounds) {
  make_volumes(nginx.root());
  std::list<Node> nodes;
  std::vector<std::string> addresses;
  for (int n = 0; n < kMostNodes; ++n) {
    nodes.emplace_back(n + 1);
    if (!nodes.back().works()) {
      std::fprintf(stderr, "bench_stream: no network namespaces here; rows of nodes left out\n");
      return;
    }
    addresses.push_back(nodes.back().address_of_server());
  }
  const Nginx server(addresses, nginx.root());
  std::vector<double> one, two, four;
  for (int r = 0; r < rounds; ++r) {
    one.push_back(read_together(nodes, 1, server.port()));
    two.push_back(read_together(nodes, 2, server.port()));
    four.push_back(read_together(nodes, 4, server.port()));
  }
  table.add_absolute(fmt::format("one node behind a link of {}, share of the link", kLinkRate), "",
                     Better::kHigher, median(one) / 0.0125, 0.9);
  table.add_absolute("2 nodes, against twice one node", "", Better::kHigher,
                     median(two) / (2 * median(one)), 0.95);
  table.add_absolute("4 nodes, against four times one node", "", Better::kHigher,
                     median(four) / (4 * median(one)), 0.95);
}

void add_demo_rows(Table& table) {
  const std::string missing = tests::S3Server::missing();
  if (!missing.empty()) {
    std::fprintf(stderr, "bench_stream: %s; rows of the demo left out\n", missing.c_str());
    return;
  }
  const tests::S3Server server;
  const uint16_t port =
      static_cast<uint16_t>(std::stoi(server.endpoint().substr(server.endpoint().rfind(':') + 1)));
  const tests::DelayProxy far(port, std::chrono::milliseconds(10));
  const runtime::TemporaryDirectory folder;
  const auto craton = [&](std::vector<std::string> arguments, const std::string& endpoint) {
    arguments.insert(arguments.begin(), craton_program());
    runtime::ProgramOptions options;
    options.environment = server.environment();
    options.environment.push_back("CRATON_S3_ENDPOINT=" + endpoint);
    options.folder = folder.path();
    options.timeout = std::chrono::minutes(30);
    const auto result = runtime::run_program(arguments, options);
    if (result.exit_code != 0) throw std::runtime_error("craton: " + result.errors);
  };
  server.make_bucket("demo");
  craton({"volume", "synth", "s3://demo/survey.mdio", "--shape", "160,160,256", "--seed", "7"},
         server.endpoint());
  for (const bool cached : {true, false}) {
    const std::string name = cached ? "cached" : "uncached";
    craton({"train", std::string(CRATON_SOURCE_DIR) + "/recipes/sfm-demo.yaml", "name=" + name,
            "data.volumes.0.uri=s3://demo/survey.mdio", "train.steps=" + std::to_string(kSteps),
            "train.schedule.warmup_steps=10", "train.validate_every=0",
            std::string("data.cache.bytes=") + (cached ? "16GiB" : "0")},
           far.url());
    table.add_absolute(fmt::format("waiting for data in the demo, S3 20 ms away, {}",
                                   cached ? "cache" : "no cache"),
                       "", Better::kLower,
                       share_of_waiting(folder.path() / "runs" / name / "metrics.jsonl"), 0.01);
  }
}

}  // namespace craton::bench
