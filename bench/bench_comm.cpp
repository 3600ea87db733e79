// Collectives between four workers of one host, each a process of its own, against gloo in the same
// run: the two take turns, and a round's time is that of its slowest worker.

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <new>
#include <numeric>
#include <thread>

#include "bench_table.h"
#include "craton/base/check.h"
#include "craton/base/error.h"
#include "craton/comm/collectives.h"
#include "craton/runtime/file.h"
#include "craton/runtime/futex.h"

#ifdef CRATON_BENCH_GLOO
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#endif

namespace {

using namespace craton;
using Clock = std::chrono::steady_clock;

constexpr int kWorkers = 4;
constexpr int kMostRounds = 200;

struct Address {
  uint64_t incarnation;
  char host_id[128], local_socket[64];
  uint16_t port;
};

/// A worker's times, by what was measured.
enum What { kShared, kTcp, kGlooRing, kGlooHalving, kSharedSmall, kTcpSmall, kWhats };

/// Memory that all processes of the bench see.
struct Board {
  std::array<std::array<Address, kWorkers>, 2> addresses;
  std::atomic<uint32_t> arrived;
  std::array<std::array<std::array<double, kWorkers>, kMostRounds>, kWhats> seconds;
  std::array<std::array<std::array<double, kWorkers>, kMostRounds>, kWhats> cpu_seconds;

  void meet(uint32_t total) {
    ++arrived;
    runtime::futex_wake_all(arrived);
    for (uint32_t seen = arrived; seen < total; seen = arrived) {
      runtime::futex_wait(arrived, seen, std::chrono::seconds(1));
    }
  }
};

void write_address(Address& slot, const comm::PeerAddress& address) {
  slot.incarnation = address.incarnation;
  std::strncpy(slot.host_id, address.host_id.c_str(), sizeof(slot.host_id) - 1);
  std::strncpy(slot.local_socket, address.local_socket.c_str(), sizeof(slot.local_socket) - 1);
  slot.port = address.tcp_port;
}

comm::Group read_group(const std::array<Address, kWorkers>& slots, int rank) {
  comm::Group group{Generation(1), {}, Rank(rank)};
  for (const Address& slot : slots) {
    group.members.push_back(
        {slot.incarnation, slot.host_id, slot.local_socket, "127.0.0.1", slot.port});
  }
  return group;
}

/// Of all threads of this process, in user and system mode.
double cpu_seconds() {
  rusage use{};
  ::getrusage(RUSAGE_SELF, &use);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

/// One worker's side of one transport: an endpoint, its communicator, and a buffer of the endpoint.
class Side {
 public:
  Side(comm::TransportChoice transport, size_t elements) : endpoint_(options(transport)) {
    buffer_ = endpoint_.allocate(elements * sizeof(float));
  }
  const comm::PeerAddress& address() const { return endpoint_.address(); }
  void join(const comm::Group& group) { comm_ = endpoint_.join(group); }
  std::span<float> data() const { return buffer_.as<float>(); }
  void barrier() { comm::barrier(*comm_, operation_++); }
  void all_reduce() {
    comm::reduce_scatter(*comm_, operation_++, data());
    comm::all_gather(*comm_, operation_++, data());
  }
  void small_all_gather() {
    std::array<std::byte, 64> own{};
    comm::all_gather_bytes(*comm_, operation_++, own);
  }

 private:
  static comm::EndpointOptions options(comm::TransportChoice transport) {
    comm::EndpointOptions options;
    options.transport = transport;
    return options;
  }
  comm::Endpoint endpoint_;
  comm::Buffer buffer_;
  std::unique_ptr<comm::Communicator> comm_;
  uint64_t operation_ = 0;
};

#ifdef CRATON_BENCH_GLOO
/// Gloo over TCP on the loopback device, as libtorch's process group sets it up.
class Gloo {
 public:
  Gloo(int rank, const std::string& folder) {
    gloo::rendezvous::FileStore store(folder);
    gloo::transport::tcp::attr attributes;
    attributes.hostname = "127.0.0.1";
    auto device = gloo::transport::tcp::CreateDevice(attributes);
    auto context = std::make_shared<gloo::rendezvous::Context>(rank, kWorkers);
    context->connectFullMesh(store, device);
    context_ = context;
  }
  void ring(std::span<float> data) {
    gloo::AllreduceOptions options(context_);
    options.setOutput(data.data(), data.size());
    options.setReduceFunction(
        [](void* out, const void* a, const void* b, size_t n) { gloo::sum<float>(out, a, b, n); });
    options.setTag(tag_++);
    gloo::allreduce(options);
  }
  void halving_doubling(std::span<float> data) {
    if (!halving_) {
      halving_ = std::make_unique<gloo::AllreduceHalvingDoubling<float>>(
          context_, std::vector<float*>{data.data()}, static_cast<int>(data.size()));
    }
    halving_->run();
  }

 private:
  std::shared_ptr<gloo::Context> context_;
  std::unique_ptr<gloo::AllreduceHalvingDoubling<float>> halving_;
  uint32_t tag_ = 0;
};
#endif

void check_sums(std::span<const float> data, const char* what) {
  for (size_t i = 0; i < data.size(); i += 997) {
    if (data[i] != kWorkers * (kWorkers + 1) / 2)
      fail(ErrorCode::kInternal, "wrong sum by {}", what);
  }
}

class Worker {
 public:
  Worker(Board& board, int rank, size_t elements, const std::string& folder)
      : board_(board),
        rank_(rank),
        shared_(comm::TransportChoice::kSharedMemory, elements),
        tcp_(comm::TransportChoice::kTcp, elements)
#ifdef CRATON_BENCH_GLOO
        ,
        gloo_(rank, folder),
        gloo_data_(elements)
#endif
  {
    const auto at = static_cast<size_t>(rank);
    write_address(board.addresses[0][at], shared_.address());
    write_address(board.addresses[1][at], tcp_.address());
    board.meet(kWorkers);
    shared_.join(read_group(board.addresses[0], rank));
    tcp_.join(read_group(board.addresses[1], rank));
  }

  void run(int rounds) {
    for (int round = 0; round < rounds; ++round) {
      sums(round, kShared, shared_.data(), [&] { shared_.all_reduce(); });
#ifdef CRATON_BENCH_GLOO
      sums(round, kGlooRing, gloo_data_, [&] { gloo_.ring(gloo_data_); });
      sums(round, kGlooHalving, gloo_data_, [&] { gloo_.halving_doubling(gloo_data_); });
#endif
      sums(round, kTcp, tcp_.data(), [&] { tcp_.all_reduce(); });
      small(round, kSharedSmall, shared_);
      small(round, kTcpSmall, tcp_);
    }
    shared_.barrier();
  }

 private:
  void sums(int round, What what, std::span<float> data, const std::function<void()>& body) {
    std::fill(data.begin(), data.end(), static_cast<float>(rank_ + 1));
    measure(round, what, body);
    check_sums(data, "a transport");
  }
  void small(int round, What what, Side& side) {
    constexpr int kRepeats = 50;
    measure(round, what, [&] {
      for (int i = 0; i < kRepeats; ++i) side.small_all_gather();
    });
    board_.seconds[what][static_cast<size_t>(round)][static_cast<size_t>(rank_)] /= kRepeats;
  }
  void measure(int round, What what, const std::function<void()>& body) {
    shared_.barrier();
    const double cpu = cpu_seconds();
    const auto start = Clock::now();
    body();
    board_.seconds[what][static_cast<size_t>(round)][static_cast<size_t>(rank_)] =
        std::chrono::duration<double>(Clock::now() - start).count();
    board_.cpu_seconds[what][static_cast<size_t>(round)][static_cast<size_t>(rank_)] =
        cpu_seconds() - cpu;
  }

  Board& board_;
  const int rank_;
  Side shared_, tcp_;
#ifdef CRATON_BENCH_GLOO
  Gloo gloo_;
  std::vector<float> gloo_data_;
#endif
};

/// Median over the rounds but the first two, which warm up.
double median_seconds(const Board& board, What what, int rounds) {
  std::vector<double> slowest;
  for (int round = 2; round < rounds; ++round) {
    const auto& times = board.seconds[what][static_cast<size_t>(round)];
    slowest.push_back(*std::max_element(times.begin(), times.end()));
  }
  return bench::median(slowest);
}

/// The same for processor time, of all workers together. It hardly depends on what else the machine
/// does.
double median_cpu_seconds(const Board& board, What what, int rounds) {
  std::vector<double> sums;
  for (int round = 2; round < rounds; ++round) {
    const auto& times = board.cpu_seconds[what][static_cast<size_t>(round)];
    sums.push_back(std::accumulate(times.begin(), times.end(), 0.0));
  }
  return bench::median(sums);
}

bool run_workers(Board& board, int rounds, size_t elements, const std::string& folder) {
  std::vector<pid_t> children;
  for (int rank = 0; rank < kWorkers; ++rank) {
    const pid_t pid = ::fork();
    if (pid != 0) {
      children.push_back(pid);
      continue;
    }
    int code = 0;
    try {
      Worker(board, rank, elements, folder).run(rounds);
    } catch (const std::exception& error) {
      fmt::print(stderr, "worker {}: {}\n", rank, error.what());
      code = 1;
    }
    ::_exit(code);
  }
  bool good = true;
  for (const pid_t pid : children) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    good = good && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  return good;
}

/// A generation of many workers, as threads of this process: join, and a barrier over all of them.
double stub_generation_seconds(int count, bool first) {
  comm::EndpointOptions options;
  options.transport = comm::TransportChoice::kSharedMemory;
  std::vector<std::unique_ptr<comm::Endpoint>> endpoints;
  comm::Group group;
  for (int i = 0; i < count; ++i) {
    endpoints.push_back(std::make_unique<comm::Endpoint>(options));
    group.members.push_back(endpoints.back()->address());
  }
  double seconds = 0;
  for (uint64_t generation = 1; generation <= (first ? 1u : 2u); ++generation) {
    group.generation = Generation(generation);
    const auto start = Clock::now();
    std::vector<std::thread> threads;
    for (int i = 0; i < count; ++i) {
      threads.emplace_back([&, i] {
        comm::Group own = group;
        own.self = Rank(i);
        const auto comm = endpoints[static_cast<size_t>(i)]->join(own);
        comm::barrier(*comm, 0);
      });
    }
    for (auto& thread : threads) thread.join();
    seconds = std::chrono::duration<double>(Clock::now() - start).count();
  }
  return seconds;
}

/// Stubs share one process here, so that its limit of descriptors counts for all of them.
void raise_descriptor_limit() {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Collectives between 4 workers of one host");
  std::string json;
  int rounds = 17, mebibytes = 64;
  app.add_option("--json", json, "write the rows to this file");
  app.add_option("--rounds", rounds)->check(CLI::Range(3, kMostRounds));
  app.add_option("--mebibytes", mebibytes, "size of the summed buffer")->check(CLI::Range(1, 1024));
  CLI11_PARSE(app, argc, argv);

  const runtime::TemporaryDirectory folder;
  void* memory =
      ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CRATON_CHECK(memory != MAP_FAILED);
  auto& board = *new (memory) Board{};
  const size_t elements = (static_cast<size_t>(mebibytes) << 20) / sizeof(float);
  if (!run_workers(board, rounds, elements, folder.path().string())) return 1;

  const auto milliseconds = [&](What what) { return 1e3 * median_seconds(board, what, rounds); };
  bench::Table table("comm: 4 workers of one host");
  const std::string sum = fmt::format("reduce-scatter + all-gather of {} MiB", mebibytes);
#ifdef CRATON_BENCH_GLOO
  const double ring = milliseconds(kGlooRing), halving = milliseconds(kGlooHalving);
  table.add_ratio(sum + " / gloo all-reduce", "ms", bench::Better::kLower, milliseconds(kShared),
                  std::min(ring, halving), 3.0);
  table.add_ratio(sum + " / gloo ring (libtorch's)", "ms", bench::Better::kLower,
                  milliseconds(kShared), ring, 3.0);
  table.add_ratio(sum + " over TCP / gloo", "ms", bench::Better::kLower, milliseconds(kTcp),
                  std::min(ring, halving), 0.8);
  const auto cpu = [&](What what) { return 1e3 * median_cpu_seconds(board, what, rounds); };
  table.add_ratio(sum + ", processor time", "ms", bench::Better::kLower, cpu(kShared),
                  std::min(cpu(kGlooRing), cpu(kGlooHalving)), 3.0);
  table.add_ratio(sum + " over TCP, processor time", "ms", bench::Better::kLower, cpu(kTcp),
                  std::min(cpu(kGlooRing), cpu(kGlooHalving)), 0.8);
#else
  fmt::print("libgloo-dev is not installed: no peer to compare with\n");
  table.add_absolute(sum, "ms", bench::Better::kLower, milliseconds(kShared), 1e3);
  table.add_absolute(sum + " over TCP", "ms", bench::Better::kLower, milliseconds(kTcp), 1e3);
#endif
  table.add_absolute("all-gather of 64 bytes", "ms", bench::Better::kLower,
                     milliseconds(kSharedSmall), 1.0);
  table.add_absolute("all-gather of 64 bytes over TCP", "ms", bench::Better::kLower,
                     milliseconds(kTcpSmall), 2.0);
  raise_descriptor_limit();
  table.add_absolute("first generation of 256 workers in one process", "s", bench::Better::kLower,
                     stub_generation_seconds(256, true), 1.0);
  table.add_absolute("next generation of the same 256", "s", bench::Better::kLower,
                     stub_generation_seconds(256, false), 1.0);
  table.add_absolute("first generation of 128", "s", bench::Better::kLower,
                     stub_generation_seconds(128, true), 0.5);
  table.print();
  table.write_json(json);
  return 0;
}
