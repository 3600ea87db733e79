// Reading from object storage, from nginx on loopback: raw objects against eight parallel curl
// processes, "aws s3 cp" and rclone where they are installed; decoded chunks against blosc alone;
// windows in training order against python3-zarr, with the bytes and the memory that they cost.
// Rounds alternate. Processor time is shown beside the raw rate: on a machine that is busy
// elsewhere it is the steadier figure.

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
#include "craton/runtime/thread_pool.h"
#include "craton/store/object_store.h"
#include "distance_rows.h"
#include "nginx_server.h"
#include "store_read.h"
#include "stream_rows.h"

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

std::string key(size_t i) { return "object" + std::to_string(i); }

void make_objects(const bench::Nginx& nginx) {
  std::filesystem::create_directories(nginx.root() / "bucket");
  std::vector<std::byte> bytes(kObject);
  const Philox random(1, RandomPurpose::kTest);
  for (size_t i = 0; i < bytes.size(); i += 16) {
    const auto block = random.block(i);
    std::memcpy(bytes.data() + i, block.data(), 16);
  }
  for (size_t i = 0; i < kParallel; ++i)
    runtime::write_file_atomically(nginx.root() / "bucket" / key(i), bytes);
}

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

/// What is installed of those that read the same objects, `repeats` times each, eight at a time.
std::vector<Peer> raw_peers(const bench::Nginx& nginx, int repeats,
                            const std::filesystem::path& files) {
  std::vector<Peer> peers;
  peers.push_back({"curl x8",
                   [&nginx, repeats] {
                     on_threads([&](size_t i) {
                       std::vector<std::string> command = {"curl", "-sf"};
                       for (int r = 0; r < repeats; ++r) {
                         command.insert(command.end(),
                                        {"-o", "/dev/null", nginx.origin() + "/bucket/" + key(i)});
                       }
                       expect_success(runtime::run_program(command), "curl");
                     });
                   },
                   0.9,
                   {},
                   {}});
  if (runtime::run_program({"sh", "-c", "aws --version"}).exit_code == 0)
    peers.push_back({"aws s3 cp",
                     [&nginx, repeats] {
                       on_threads([&](size_t i) {
                         for (int r = 0; r < repeats; ++r)
                           expect_success(
                               runtime::run_program({"aws", "--endpoint-url", nginx.origin(),
                                                     "--no-sign-request", "s3", "cp",
                                                     "s3://bucket/" + key(i), "/dev/null"}),
                               "aws");
                       });
                     },
                     1.5,
                     {},
                     {}});

  // Into files: elsewhere it writes only after asking for a listing.
  if (runtime::run_program({"sh", "-c", "rclone version"}).exit_code == 0)
    peers.push_back(
        {"rclone copyto x8",
         [&nginx, repeats, files] {
           on_threads([&](size_t i) {
             for (int r = 0; r < repeats; ++r)
               expect_success(
                   runtime::run_program({"env", "-u", "AWS_CA_BUNDLE", "rclone", "copyto", "-I",
                                         ":s3,provider=Other,env_auth=false,endpoint='" +
                                             nginx.origin() + "':bucket/" + key(i),
                                         (files / key(i)).string()}),
                   "rclone");
           });
         },
         1.5,
         {},
         {}});
  return peers;
}

/// Objects of 64 MiB: ours against curl, and "aws s3 cp" and rclone where they are installed.
void add_raw_rows(bench::Table& table, const bench::Nginx& nginx, int rounds, int repeats) {
  make_objects(nginx);
  const auto store = store::open_store(nginx.origin() + "/bucket");
  std::vector<store::Bytes> buffers(kParallel);
  const auto ours = [&] {
    on_threads([&](size_t i) {
      for (int r = 0; r < repeats; ++r)
        if (store->get_into(key(i), buffers[i])->size() != kObject) std::abort();
    });
  };
  const runtime::TemporaryDirectory files;
  std::vector<Peer> peers = raw_peers(nginx, repeats, files.path());

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
  for (const Peer& peer : peers) {
    table.add_ratio("rate, against " + peer.name, "GB/s", bench::Better::kHigher,
                    bench::median(rates), bench::median(peer.rates), peer.reach);
    table.add_ratio("processor time, against " + peer.name, "s/GB", bench::Better::kLower,
                    bench::median(processor), bench::median(peer.processor), peer.reach);
  }
}

}  // namespace

int main(int argc, char** argv) {
  int rounds = 5, repeats = 4;
  std::string json, only;
  CLI::App app("Reading from object storage");
  app.add_option("--rounds", rounds, "Alternating rounds")->capture_default_str();
  app.add_option("--repeats", repeats, "Reads of each object per round")->capture_default_str();
  app.add_option("--json", json, "Write the rows to this file");
  app.add_option("--only", only, "Some rows: raw, decode, windows, nodes or demo")
      ->check(CLI::IsMember({"raw", "decode", "windows", "nodes", "demo"}));
  CLI11_PARSE(app, argc, argv);

  const bench::Nginx nginx;
  bench::Table table("bench_stream");
  if (only.empty() || only == "raw") add_raw_rows(table, nginx, rounds, repeats);
  if (only.empty() || only == "decode") {
    const runtime::TemporaryDirectory folder;
    bench::add_store_read_rows(table, folder.path(), runtime::available_cores());
  }
  if (only.empty() || only == "windows") bench::add_stream_rows(table, nginx, std::min(rounds, 3));
  if (only.empty() || only == "nodes") bench::add_node_rows(table, nginx, std::min(rounds, 3));
  if (only.empty() || only == "demo") bench::add_demo_rows(table);
  table.print();
  table.write_json(json);
  return 0;
}
