// Raw reads of 64 MiB objects from nginx on loopback, through the store, against eight parallel
// curl processes and against "aws s3 cp" where it is installed. Rounds alternate. Processor time is
// shown beside the rate: on a machine that is busy elsewhere it is the steadier figure.

#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <thread>

#include "bench_table.h"
#include "craton/base/philox.h"
#include "craton/runtime/file.h"
#include "craton/runtime/process.h"
#include "craton/runtime/running_program.h"
#include "craton/runtime/socket.h"
#include "craton/store/object_store.h"

namespace {

using namespace craton;
using Clock = std::chrono::steady_clock;

constexpr size_t kObject = 64 << 20;
constexpr size_t kParallel = 8;

/// What a piece of work took.
struct Cost {
  double seconds = 0, processor_seconds = 0;
};

double processor_seconds(int who) {
  rusage usage{};
  ::getrusage(who, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

template <typename Work>
Cost measure(Work work) {
  const auto start = Clock::now();
  const double before = processor_seconds(RUSAGE_SELF) + processor_seconds(RUSAGE_CHILDREN);
  work();
  return {std::chrono::duration<double>(Clock::now() - start).count(),
          processor_seconds(RUSAGE_SELF) + processor_seconds(RUSAGE_CHILDREN) - before};
}

/// nginx that serves the files of a folder; ends with this program.
class Nginx {
 public:
  Nginx() {
    { runtime::FileDescriptor taken = runtime::listen_tcp("127.0.0.1", port_); }
    const std::string folder = folder_.path();
    runtime::write_file_atomically(
        folder_.path() / "nginx.conf",
        fmt::format(
            "daemon off; master_process off; pid {0}/pid; error_log {0}/error.log;\n"
            "events {{ worker_connections 1024; }}\n"
            "http {{ access_log off; sendfile on; tcp_nodelay on; keepalive_requests 1000000;\n"
            "  client_body_temp_path {0}; proxy_temp_path {0}; fastcgi_temp_path {0};\n"
            "  uwsgi_temp_path {0}; scgi_temp_path {0};\n"
            "  server {{ listen 127.0.0.1:{1}; root {0}/www; }} }}\n",
            folder, port_));
    std::filesystem::create_directories(folder_.path() / "www" / "bucket");
    std::vector<std::byte> bytes(kObject);
    const Philox random(1, RandomPurpose::kTest);
    for (size_t i = 0; i < bytes.size(); i += 16) {
      const auto block = random.block(i);
      std::memcpy(bytes.data() + i, block.data(), 16);
    }
    for (size_t i = 0; i < kParallel; ++i)
      runtime::write_file_atomically(folder_.path() / "www" / "bucket" / key(i), bytes);
    program_ = std::make_unique<runtime::RunningProgram>(
        std::vector<std::string>{"nginx", "-p", folder, "-c", folder + "/nginx.conf"});
    for (int i = 0; i < 200; ++i) {
      if (runtime::run_program({"curl", "-sfI", "-o", "/dev/null", url(0)}).exit_code == 0) return;
      if (program_->wait(std::chrono::milliseconds(50))) break;
    }
    throw std::runtime_error("nginx did not start");
  }
  static std::string key(size_t i) { return "object" + std::to_string(i); }
  std::string origin() const { return "http://127.0.0.1:" + std::to_string(port_); }
  std::string url(size_t i) const { return origin() + "/bucket/" + key(i); }

 private:
  runtime::TemporaryDirectory folder_;
  uint16_t port_ = 0;
  std::unique_ptr<runtime::RunningProgram> program_;
};

template <typename Body>
void on_threads(Body body) {
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kParallel; ++i) threads.emplace_back([&, i] { body(i); });
  for (auto& thread : threads) thread.join();
}

void expect_success(const runtime::ProgramResult& result, const char* what) {
  if (result.exit_code != 0) throw std::runtime_error(std::string(what) + ": " + result.errors);
}

struct Peer {
  std::string name;
  std::function<void()> work;
  double reach;
  std::vector<double> rates, processor;
};

}  // namespace

int main(int argc, char** argv) {
  int rounds = 5, repeats = 4;
  std::string json;
  CLI::App app("Reading from object storage");
  app.add_option("--rounds", rounds, "Alternating rounds")->capture_default_str();
  app.add_option("--repeats", repeats, "Reads of each object per round")->capture_default_str();
  app.add_option("--json", json, "Write the rows to this file");
  CLI11_PARSE(app, argc, argv);

  Nginx nginx;
  const auto store = store::open_store(nginx.origin() + "/bucket");
  std::vector<store::Bytes> buffers(kParallel);
  const auto ours = [&] {
    on_threads([&](size_t i) {
      for (int r = 0; r < repeats; ++r)
        if (store->get_into(Nginx::key(i), buffers[i])->size() != kObject) std::abort();
    });
  };
  std::vector<Peer> peers;
  peers.push_back({"curl x8",
                   [&] {
                     on_threads([&](size_t i) {
                       std::vector<std::string> command = {"curl", "-sf"};
                       for (int r = 0; r < repeats; ++r) {
                         command.insert(command.end(), {"-o", "/dev/null", nginx.url(i)});
                       }
                       expect_success(runtime::run_program(command), "curl");
                     });
                   },
                   0.9,
                   {},
                   {}});
  if (runtime::run_program({"sh", "-c", "aws --version"}).exit_code == 0)
    peers.push_back({"aws s3 cp",
                     [&] {
                       on_threads([&](size_t i) {
                         for (int r = 0; r < repeats; ++r)
                           expect_success(
                               runtime::run_program({"aws", "--endpoint-url", nginx.origin(),
                                                     "--no-sign-request", "s3", "cp",
                                                     "s3://bucket/" + Nginx::key(i), "/dev/null"}),
                               "aws");
                       });
                     },
                     1.5,
                     {},
                     {}});

  const double gigabytes = 1e-9 * static_cast<double>(kObject * kParallel) * repeats;
  std::vector<double> rates, processor;
  measure(ours);  // connections, page cache, buffers
  for (int round = 0; round < rounds; ++round) {
    const Cost cost = measure(ours);
    rates.push_back(gigabytes / cost.seconds);
    processor.push_back(cost.processor_seconds / gigabytes);
    for (Peer& peer : peers) {
      const Cost theirs = measure(peer.work);
      peer.rates.push_back(gigabytes / theirs.seconds);
      peer.processor.push_back(theirs.processor_seconds / gigabytes);
    }
  }
  bench::Table table("bench_stream: 8 x 64 MiB from nginx");
  for (const Peer& peer : peers) {
    table.add_ratio("rate, against " + peer.name, "GB/s", bench::Better::kHigher,
                    bench::median(rates), bench::median(peer.rates), peer.reach);
    table.add_ratio("processor time, against " + peer.name, "s/GB", bench::Better::kLower,
                    bench::median(processor), bench::median(peer.processor), peer.reach);
  }
  table.print();
  table.write_json(json);
  return 0;
}
