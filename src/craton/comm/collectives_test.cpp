#include "craton/comm/collectives.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>

#include "craton/testing/workers.h"

namespace craton::comm {
namespace {

using testing::Workers;

testing::TransportCase over(TransportChoice choice) {
  return {"", [choice](int) {
            EndpointOptions options;
            options.transport = choice;
            return options;
          }};
}

/// Values whose sum depends on the order in which they are added.
float value(int rank, size_t i) {
  return std::ldexp(1.0f + static_cast<float>((i * 7 + static_cast<size_t>(rank) * 13) % 101),
                    (rank * 5 + static_cast<int>(i)) % 12);
}

TEST(Part, CoversEverythingOnceAtCacheLines) {
  for (const size_t elements : {0, 1, 15, 16, 17, 1000, 4096}) {
    for (const int world : {1, 2, 3, 4, 7}) {
      size_t at = 0;
      for (int rank = 0; rank < world; ++rank) {
        const Part part = part_of(elements, world, Rank(rank));
        EXPECT_EQ(part.begin, at);
        EXPECT_TRUE(part.begin % 16 == 0 || part.begin == elements);
        at = part.end;
      }
      EXPECT_EQ(at, elements);
    }
  }
}

class Collectives : public ::testing::TestWithParam<TransportChoice> {};

TEST_P(Collectives, SumsAreThoseOfRankOrderWhereverTheDataLies) {
  for (const int world : {1, 2, 3, 4, 5, 8}) {
    Workers workers(world, over(GetParam()));
    auto comms = workers.join(1, workers.all());
    constexpr size_t kElements = 40'003;
    Workers::each(world, [&](int rank) {
      auto& comm = *comms[static_cast<size_t>(rank)];
      auto buffer = workers.endpoint(rank).allocate(kElements * sizeof(float));
      std::vector<float> outside(kElements);
      uint64_t operation = 0;
      for (const std::span<float> data : {buffer.as<float>(), std::span<float>(outside)}) {
        for (size_t i = 0; i < kElements; ++i) data[i] = value(rank, i);
        reduce_scatter(comm, operation++, data);
        const Part own = part_of(kElements, world, Rank(rank));
        for (size_t i = 0; i < kElements; ++i) {
          const bool mine = i >= own.begin && i < own.end;
          ASSERT_TRUE(mine || data[i] == value(rank, i)) << i;
        }
        std::fill(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(own.begin), 0.0f);
        std::fill(data.begin() + static_cast<std::ptrdiff_t>(own.end), data.end(), 0.0f);
        all_gather(comm, operation++, data);
        for (size_t i = 0; i < kElements; ++i) {
          float expected = value(0, i);
          for (int r = 1; r < world; ++r) expected += value(r, i);
          ASSERT_EQ(data[i], expected) << i;
        }
      }
    });
  }
}

TEST_P(Collectives, GathersAndBroadcastsBytes) {
  Workers workers(3, over(GetParam()));
  auto comms = workers.join(1, workers.all());
  Workers::each(3, [&](int rank) {
    auto& comm = *comms[static_cast<size_t>(rank)];
    const auto size = [](int r) { return static_cast<size_t>(r) * 40'000; };
    const auto all =
        all_gather_bytes(comm, 1, testing::message_bytes(size(rank), static_cast<uint64_t>(rank)));
    ASSERT_EQ(all.size(), 3u);
    for (int r = 0; r < 3; ++r) {
      EXPECT_EQ(all[static_cast<size_t>(r)],
                testing::message_bytes(size(r), static_cast<uint64_t>(r)));
    }
    auto bytes = testing::message_bytes(9000, static_cast<uint64_t>(rank));
    broadcast(comm, 2, Rank(1), bytes);
    EXPECT_EQ(bytes, testing::message_bytes(9000, 1));
    std::vector<double> values{1.0 * rank, 1e300, rank == 2 ? NAN : 1.0};
    all_reduce_small(comm, 3, values);
    EXPECT_EQ(values[0], 3.0);
    EXPECT_EQ(values[1], 3e300);
    EXPECT_TRUE(std::isnan(values[2]));
  });
}

TEST_P(Collectives, NobodyLeavesABarrierBeforeTheLastHasEntered) {
  constexpr int kWorld = 5;
  Workers workers(kWorld, over(GetParam()));
  auto comms = workers.join(1, workers.all());
  std::atomic<int> entered{0};
  Workers::each(kWorld, [&](int rank) {
    for (uint64_t round = 0; round < 50; ++round) {
      ++entered;
      barrier(*comms[static_cast<size_t>(rank)], 2 * round);
      EXPECT_EQ(entered.load(), kWorld * (static_cast<int>(round) + 1));
      barrier(*comms[static_cast<size_t>(rank)], 2 * round + 1);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Comm, Collectives,
                         ::testing::Values(TransportChoice::kSharedMemory, TransportChoice::kTcp),
                         [](const auto& info) {
                           return info.param == TransportChoice::kTcp ? "tcp" : "shared_memory";
                         });

}  // namespace
}  // namespace craton::comm
