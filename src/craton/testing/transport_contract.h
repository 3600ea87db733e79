#pragma once

#include <gtest/gtest.h>

#include <algorithm>

#include "craton/testing/workers.h"

namespace craton::testing {

/// What every transport promises (comm/communicator.h). Instantiate it with the cases to run.
class TransportContract : public ::testing::TestWithParam<TransportCase> {};

TEST_P(TransportContract, MessagesOfAllSizesArriveWhole) {
  Workers workers(2, GetParam());
  auto comms = workers.join(1, workers.all());
  const std::vector<size_t> sizes{0, 1, 7, 2048, 2049, 65536, 262144, 1 << 20, (5 << 20) + 3};
  Workers::each(2, [&](int rank) {
    auto& comm = *comms[static_cast<size_t>(rank)];
    std::vector<std::unique_ptr<comm::PendingSend>> sends;
    for (size_t i = 0; i < sizes.size(); ++i) {
      const auto bytes = message_bytes(sizes[i], i * 2 + static_cast<uint64_t>(rank));
      sends.push_back(send_bytes(comm, 1 - rank, i, bytes));
    }
    for (size_t i = 0; i < sizes.size(); ++i) {
      const auto message = comm.receive(Rank(1 - rank), i);
      ASSERT_EQ(message->bytes(), sizes[i]);
      EXPECT_EQ(joined(*message), message_bytes(sizes[i], i * 2 + static_cast<uint64_t>(1 - rank)));
      message->release();
    }
    for (auto& send : sends) send->wait();
  });
}

TEST_P(TransportContract, ScatteredPiecesKeepTheirBounds) {
  Workers workers(2, GetParam());
  auto comms = workers.join(1, workers.all());
  auto buffer = workers.endpoint(0).allocate(1 << 20);
  fill_message({buffer.data(), buffer.size()}, 5);
  const auto outside = message_bytes(3000, 6);
  std::vector<std::span<const std::byte>> pieces;
  for (size_t i = 0; i < 3000; ++i) pieces.emplace_back(buffer.data() + i * 300, i % 200);
  pieces.emplace_back(outside);
  const auto send = comms[0]->send(Rank(1), 9, pieces);
  const auto message = comms[1]->receive(Rank(0), 9);
  ASSERT_EQ(message->pieces().size(), pieces.size());
  for (size_t i = 0; i < pieces.size(); ++i) {
    ASSERT_TRUE(std::ranges::equal(message->pieces()[i], pieces[i])) << i;
  }
  message->release();
  send->wait();
}

TEST_P(TransportContract, OrderOfArrivalDoesNotMatter) {
  Workers workers(2, GetParam());
  auto comms = workers.join(1, workers.all());
  constexpr uint64_t kCount = 200;
  std::vector<std::unique_ptr<comm::PendingSend>> sends;
  for (uint64_t i = 0; i < kCount; ++i) {
    sends.push_back(send_bytes(*comms[0], 1, i, message_bytes(i * 37, i)));
  }
  for (uint64_t i = kCount; i-- > 0;) {
    EXPECT_EQ(joined(*comms[1]->receive(Rank(0), i)), message_bytes(i * 37, i));
  }
  for (auto& send : sends) send->wait();
}

TEST_P(TransportContract, ManyOperationsFromSeveralThreads) {
  Workers workers(3, GetParam());
  auto comms = workers.join(1, workers.all());
  constexpr int kThreads = 2, kRounds = 60;
  Workers::each(3 * kThreads, [&](int id) {
    const int rank = id % 3, thread = id / 3;
    auto& comm = *comms[static_cast<size_t>(rank)];
    for (int round = 0; round < kRounds; ++round) {
      const auto operation = static_cast<uint64_t>(round * kThreads + thread);
      const size_t size = static_cast<size_t>(round % 7) * 5000 + 11;
      std::vector<std::unique_ptr<comm::PendingSend>> sends;
      for (int to = 0; to < 3; ++to) {
        if (to == rank) continue;
        sends.push_back(send_bytes(
            comm, to, operation, message_bytes(size, operation * 3 + static_cast<uint64_t>(rank))));
      }
      for (int from = 0; from < 3; ++from) {
        if (from == rank) continue;
        const auto message = comm.receive(Rank(from), operation);
        ASSERT_EQ(joined(*message),
                  message_bytes(size, operation * 3 + static_cast<uint64_t>(from)));
      }
      for (auto& send : sends) send->wait();
    }
  });
  EXPECT_EQ(comms[0]->traffic().messages, 2u * kThreads * kRounds);
}

TEST_P(TransportContract, AbortEndsWaitsAndTheNextGenerationWorks) {
  Workers workers(2, GetParam());
  auto comms = workers.join(1, workers.all());
  auto buffer = workers.endpoint(0).allocate(16 << 20);
  const std::span<const std::byte> bytes(buffer.data(), buffer.size());
  const auto send = comms[0]->send(Rank(1), 1, {&bytes, 1});
  std::thread receiver([&] {
    EXPECT_EQ(code_of([&] { comms[1]->receive(Rank(0), 77); }), ErrorCode::kGenerationEnded);
  });
  std::thread sender([&] {
    try {
      send->wait();  // TCP may have taken all of it
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kGenerationEnded);
      EXPECT_EQ(error.reaction(), Reaction::kReconfigure);
    }
  });
  comms[0]->abort();
  comms[1]->abort();
  receiver.join();
  sender.join();
  EXPECT_EQ(code_of([&] { send_bytes(*comms[0], 1, 2, bytes); }), ErrorCode::kGenerationEnded);
  EXPECT_EQ(code_of([&] { comms[1]->receive(Rank(0), 1); }), ErrorCode::kGenerationEnded);
  fill_message({buffer.data(), buffer.size()}, 3);
  comms = workers.join(2, workers.all());
  const auto again = comms[0]->send(Rank(1), 1, {&bytes, 1});
  const auto message = comms[1]->receive(Rank(0), 1);
  EXPECT_TRUE(std::ranges::equal(joined(*message), bytes));
  message->release();
  again->wait();
}

TEST_P(TransportContract, WhoLeavesAGenerationEndsItsPeersWaits) {
  Workers workers(2, GetParam());
  auto comms = workers.join(1, workers.all());
  std::thread receiver([&] {
    EXPECT_EQ(code_of([&] { comms[1]->receive(Rank(0), 77); }), ErrorCode::kGenerationEnded);
  });
  comms[0]->abort();
  receiver.join();
}

TEST_P(TransportContract, MessagesOfOldGenerationsAreDroppedAndOfNewOnesHeld) {
  Workers workers(2, GetParam());
  auto old = workers.join(1, workers.all());
  send_bytes(*old[0], 1, 5, message_bytes(10'000, 1));
  send_bytes(*old[0], 1, 6, message_bytes(10, 1));
  // Worker 0 is a generation ahead and talks already.
  auto ahead = workers.endpoint(0).join(workers.group(2, workers.all(), 0));
  send_bytes(*ahead, 1, 5, message_bytes(20'000, 2));
  send_bytes(*ahead, 1, 6, message_bytes(20, 2));
  EXPECT_EQ(joined(*old[1]->receive(Rank(0), 5)), message_bytes(10'000, 1));
  auto behind = workers.endpoint(1).join(workers.group(2, workers.all(), 1));
  EXPECT_EQ(joined(*behind->receive(Rank(0), 5)), message_bytes(20'000, 2));
  EXPECT_EQ(joined(*behind->receive(Rank(0), 6)), message_bytes(20, 2));
  EXPECT_EQ(code_of([&] { old[1]->receive(Rank(0), 6); }), ErrorCode::kGenerationEnded);
}

TEST_P(TransportContract, AGenerationThatIsNotNewerIsRefused) {
  Workers workers(2, GetParam());
  auto comms = workers.join(3, workers.all());
  for (const uint64_t generation : {1, 3}) {
    EXPECT_EQ(code_of([&] {
                workers.endpoint(0).join(workers.group(generation, {0, 1}, 0));
              }),
              ErrorCode::kGenerationEnded);
  }
  workers.endpoint(0).fence(Generation(6));
  EXPECT_EQ(code_of([&] { comms[0]->receive(Rank(1), 1); }), ErrorCode::kGenerationEnded);
  EXPECT_EQ(code_of([&] {
              workers.endpoint(0).join(workers.group(5, {0, 1}, 0));
            }),
            ErrorCode::kGenerationEnded);
  workers.join(6, workers.all());
}

TEST_P(TransportContract, WaitsTimeOut) {
  Workers workers(2, GetParam());
  auto comms = workers.join(1, workers.all());
  comms[1]->set_timeout(std::chrono::milliseconds(30));
  EXPECT_EQ(code_of([&] { comms[1]->receive(Rank(0), 1); }), ErrorCode::kTimeout);
}

TEST_P(TransportContract, WhatALostPeerHasSentStillArrives) {
  Workers workers(2, GetParam());
  auto comms = workers.join(1, workers.all());
  const auto bytes = message_bytes(100'000, 4);
  const auto send = send_bytes(*comms[0], 1, 1, bytes);
  if (comms[1]->receive(Rank(0), 1)->bytes() != bytes.size()) FAIL();
  send->wait();
  const auto last = send_bytes(*comms[0], 1, 2, bytes);
  const auto small = send_bytes(*comms[0], 1, 3, std::span(bytes).first(5));
  if (GetParam().name.find("tcp") != std::string::npos) small->wait();
  comms[0].reset();
  workers.stop(0);
  EXPECT_EQ(code_of([&] { comms[1]->receive(Rank(0), 4); }), ErrorCode::kPeerLost);
  EXPECT_EQ(joined(*comms[1]->receive(Rank(0), 2)), bytes);
  EXPECT_EQ(joined(*comms[1]->receive(Rank(0), 3)).size(), 5u);
  EXPECT_EQ(code_of([&] { send_bytes(*comms[1], 0, 9, bytes)->wait(); }), ErrorCode::kPeerLost);
}

TEST_P(TransportContract, AnAddressOfAnotherIncarnationFails) {
  Workers workers(2, GetParam());
  auto group = workers.group(1, workers.all(), 0);
  group.members[1].incarnation ^= 0x55;
  EXPECT_EQ(code_of([&] { workers.endpoint(0).join(group); }), ErrorCode::kPeerLost);
}

TEST_P(TransportContract, SurvivorsKeepTheirConnectionsWhenMembersComeAndGo) {
  Workers workers(4, GetParam());
  auto first = workers.join(1, {0, 1, 2});
  workers.stop(1);
  auto second = workers.join(2, {2, 0, 3});
  Workers::each(3, [&](int rank) {
    auto& comm = *second[static_cast<size_t>(rank)];
    const auto bytes = message_bytes(5000, static_cast<uint64_t>(rank));
    for (int to = 0; to < 3; ++to) {
      if (to != rank) send_bytes(comm, to, 1, bytes);
    }
    for (int from = 0; from < 3; ++from) {
      if (from == rank) continue;
      EXPECT_EQ(joined(*comm.receive(Rank(from), 1)),
                message_bytes(5000, static_cast<uint64_t>(from)));
    }
  });
}

TEST_P(TransportContract, CopiesAreBoundedAndFreedWhenRead) {
  TransportCase small = GetParam();
  small.options = [inner = GetParam().options](int rank) {
    auto options = inner(rank);
    options.staging_limit_bytes = 8 << 20;
    options.landing_limit_bytes = 1 << 20;
    return options;
  };
  Workers workers(2, small);
  auto comms = workers.join(1, workers.all());
  const auto bytes = message_bytes(600'000, 1);
  uint64_t sent = 0;
  const auto send_all = [&] {
    for (; sent < 10'000; ++sent) send_bytes(*comms[0], 1, sent, bytes);
  };
  EXPECT_EQ(code_of(send_all), ErrorCode::kResourceExhausted);
  EXPECT_GT(sent, 4u);
  for (uint64_t i = sent; i-- > 0;) EXPECT_EQ(comms[1]->receive(Rank(0), i)->bytes(), bytes.size());
  for (uint64_t i = 0; i < 50; ++i) {
    const auto send = send_bytes(*comms[0], 1, sent + i, bytes);
    EXPECT_EQ(joined(*comms[1]->receive(Rank(0), sent + i)), bytes);
    send->wait();
  }
}

TEST_P(TransportContract, ABufferMayBeFreedWhileItsBytesAreOnTheWay) {
  Workers workers(2, GetParam());
  auto comms = workers.join(1, workers.all());
  std::unique_ptr<comm::PendingSend> send;
  {
    const auto buffer = workers.endpoint(0).allocate(3 << 20);
    fill_message({buffer.data(), buffer.size()}, 8);
    send = send_bytes(*comms[0], 1, 1, {buffer.data(), buffer.size()});
  }
  const auto other = workers.endpoint(0).allocate(3 << 20);
  EXPECT_EQ(std::ranges::count(std::span(other.data(), other.size()), std::byte{0}), 3 << 20);
  EXPECT_EQ(joined(*comms[1]->receive(Rank(0), 1)), message_bytes(3 << 20, 8));
  send->wait();
}

TEST_P(TransportContract, AReaderLearnsThatTheSenderLeft) {
  if (GetParam().name != "shared_memory") return;  // TCP has its own copy of the bytes
  Workers workers(2, GetParam());
  auto comms = workers.join(1, workers.all());
  const auto bytes = message_bytes(10'000, 1);
  send_bytes(*comms[0], 1, 1, bytes);
  const auto message = comms[1]->receive(Rank(0), 1);
  comms[0]->abort();
  EXPECT_EQ(code_of([&] { message->release(); }), ErrorCode::kGenerationEnded);
}

}  // namespace craton::testing
