#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <new>
#include <set>

#include "craton/comm/collectives.h"
#include "craton/runtime/file.h"
#include "craton/runtime/futex.h"
#include "craton/testing/workers.h"

// Workers as processes of their own, and what the others see when one is killed.
namespace craton::comm {
namespace {

constexpr int kMostWorkers = 4;

/// Memory that a test shares with its children: addresses, and a count of things that happened.
struct Board {
  struct Slot {
    uint64_t incarnation;
    char host_id[128], local_socket[64];
    uint16_t port;
  };
  std::array<Slot, kMostWorkers> slots;
  std::atomic<uint32_t> events;

  static Board& create() {
    void* memory =
        ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return *new (memory) Board{};
  }
  void count() {
    ++events;
    runtime::futex_wake_all(events);
  }
  /// A child that died cannot hang its siblings.
  void await(uint32_t wanted) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    for (uint32_t seen = events; seen < wanted; seen = events) {
      if (std::chrono::steady_clock::now() > deadline)
        fail(ErrorCode::kTimeout, "a worker is missing");
      runtime::futex_wait(events, seen, std::chrono::seconds(1));
    }
  }
  void publish(int rank, const PeerAddress& address) {
    Slot& slot = slots[static_cast<size_t>(rank)];
    slot.incarnation = address.incarnation;
    std::strncpy(slot.host_id, address.host_id.c_str(), sizeof(slot.host_id) - 1);
    std::strncpy(slot.local_socket, address.local_socket.c_str(), sizeof(slot.local_socket) - 1);
    slot.port = address.tcp_port;
    count();
  }
  Group group(uint64_t generation, const std::vector<int>& workers, int self) const {
    Group group{Generation(generation), {}, Rank(0)};
    for (const int worker : workers) {
      const Slot& slot = slots[static_cast<size_t>(worker)];
      if (worker == self) group.self = Rank(static_cast<int32_t>(group.members.size()));
      group.members.push_back(
          {slot.incarnation, slot.host_id, slot.local_socket, "127.0.0.1", slot.port});
    }
    return group;
  }
};

EndpointOptions options_for(TransportChoice transport) {
  EndpointOptions options;
  options.transport = transport;
  options.landing_limit_bytes = 1 << 20;
  return options;
}

/// Runs `body` in a child process; its exit code is 0 when nothing failed or threw.
pid_t in_child(const std::function<void()>& body) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  int code = 0;
  try {
    body();
    code = ::testing::Test::HasFailure() ? 1 : 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "child: %s\n", error.what());
    code = 2;
  }
  ::_exit(code);
}

class Processes : public ::testing::TestWithParam<TransportChoice> {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "the thread sanitizer allows no threads after a fork";
#endif
  }
};

TEST_P(Processes, AKillInTheMiddleOfATransferEndsTheReceiversWait) {
  Board& board = Board::create();
  const pid_t child = in_child([&] {
    Endpoint endpoint(options_for(GetParam()));
    board.publish(1, endpoint.address());
    board.await(2);
    auto comm = endpoint.join(board.group(1, {0, 1}, 1));
    auto buffer = endpoint.allocate(128 << 20);
    testing::fill_message({buffer.data(), buffer.size()}, 1);
    const std::span<const std::byte> bytes(buffer.data(), buffer.size());
    const auto first = testing::send_bytes(*comm, 0, 1, bytes.first(2 << 20));
    // Over TCP the receiver stops reading before this one: nobody has asked for the first.
    const auto second = testing::send_bytes(*comm, 0, 2, bytes);
    board.count();
    second->wait();
  });
  Endpoint endpoint(options_for(GetParam()));
  board.publish(0, endpoint.address());
  board.await(2);
  auto comm = endpoint.join(board.group(1, {0, 1}, 0));
  board.await(3);
  std::thread blocked([&] {
    EXPECT_EQ(testing::code_of([&] { comm->receive(Rank(1), 3); }), ErrorCode::kPeerLost);
  });
  if (GetParam() == TransportChoice::kSharedMemory) {
    const auto message = comm->receive(Rank(1), 2);
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(testing::joined(*message) == testing::message_bytes(128 << 20, 1));
    message->release();
  } else {
    ::kill(child, SIGKILL);
    EXPECT_EQ(testing::code_of([&] { comm->receive(Rank(1), 9); }), ErrorCode::kPeerLost);
    ::waitpid(child, nullptr, 0);
  }
  blocked.join();
  EXPECT_EQ(testing::joined(*comm->receive(Rank(1), 1)), testing::message_bytes(2 << 20, 1));
  EXPECT_EQ(testing::code_of([&] { comm->receive(Rank(1), 4); }), ErrorCode::kPeerLost);
  const std::string sockets = runtime::read_text("/proc/net/unix");
  EXPECT_EQ(sockets.find(fmt::format("@craton-{:016x}", board.slots[1].incarnation)),
            std::string::npos);
}

/// All-reduces until the group breaks, or `rounds` are done; the sums are checked.
void all_reduce_rounds(Endpoint& endpoint, Communicator& comm, int rounds) {
  constexpr size_t kElements = 200'000;
  auto buffer = endpoint.allocate(kElements * sizeof(float));
  auto data = buffer.as<float>();
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < kElements; ++i) {
      data[i] = static_cast<float>(comm.rank().value() + 1 + static_cast<int>(i % 10));
    }
    reduce_scatter(comm, static_cast<uint64_t>(2 * round), data);
    all_gather(comm, static_cast<uint64_t>(2 * round + 1), data);
    const int n = comm.world_size();
    for (size_t i = 0; i < kElements; ++i) {
      ASSERT_EQ(data[i], static_cast<float>(n * (n + 1) / 2 + n * static_cast<int>(i % 10)));
    }
  }
}

TEST_P(Processes, SurvivorsOfAKillGoOnInTheNextGeneration) {
  constexpr int kVictim = 2, kWorkers = 4;
  Board& board = Board::create();
  const auto work = [&](int self) {
    Endpoint endpoint(options_for(GetParam()));
    board.publish(self, endpoint.address());
    board.await(kWorkers);
    auto comm = endpoint.join(board.group(1, {0, 1, 2, 3}, self));
    try {
      if (self == kVictim) {
        all_reduce_rounds(endpoint, *comm, 3);
        std::thread([] { ::raise(SIGKILL); }).detach();  // somewhere inside the next ones
      }
      all_reduce_rounds(endpoint, *comm, 1'000'000);
    } catch (const Error& error) {
      EXPECT_EQ(error.reaction(), Reaction::kReconfigure) << error.what();
      EXPECT_NE(error.code(), ErrorCode::kTimeout) << error.what();
      comm->abort();
    }
    comm = endpoint.join(board.group(2, {0, 1, 3}, self));
    all_reduce_rounds(endpoint, *comm, 5);
    barrier(*comm, 99);
  };
  std::vector<pid_t> children;
  for (int i = 0; i < kWorkers; ++i) children.push_back(in_child([&, i] { work(i); }));
  for (int i = 0; i < kWorkers; ++i) {
    int status = 0;
    ::waitpid(children[static_cast<size_t>(i)], &status, 0);
    if (i == kVictim)
      EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    else
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "worker " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Comm, Processes,
                         ::testing::Values(TransportChoice::kSharedMemory, TransportChoice::kTcp),
                         [](const auto& info) {
                           return info.param == TransportChoice::kTcp ? "tcp" : "shared_memory";
                         });

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kStubs = 48;
#else
constexpr int kStubs = 256;
#endif

/// The sockets of this process, by the system's number for each.
std::set<std::string> open_sockets() {
  std::set<std::string> sockets;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (target.starts_with("socket:")) sockets.insert(target);
  }
  return sockets;
}

TEST(Scale, ALargeGenerationConnectsOnlyWhatItUses) {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_max < 12'000) GTEST_SKIP() << "needs 12000 file descriptors";
  testing::Workers workers(kStubs, {"", [](int) {
                                      EndpointOptions options;
                                      options.transport = TransportChoice::kSharedMemory;
                                      options.connect_all_up_to = 8;
                                      return options;
                                    }});
  std::set<std::string> sockets_before;
  for (uint64_t generation = 1; generation <= 2; ++generation) {
    const auto group = workers.group(generation, workers.all(), 0);
    testing::Workers::each(kStubs, [&](int rank) {
      auto own = group;
      own.self = Rank(rank);
      auto comm = workers.endpoint(rank).join(own);
      barrier(*comm, 1);
    });
    const auto sockets = open_sockets();
    // Both ways of each round of the barrier, and room for calls that crossed and are being closed.
    const double rounds = std::ceil(std::log2(kStubs));
    EXPECT_LE(static_cast<double>(sockets.size()), kStubs * (2 + 4 * rounds));
    EXPECT_TRUE(generation == 1 || std::ranges::includes(sockets_before, sockets));
    sockets_before = sockets;
  }
}

}  // namespace
}  // namespace craton::comm
