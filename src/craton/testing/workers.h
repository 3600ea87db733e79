#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "craton/base/error.h"
#include "craton/comm/communicator.h"

namespace craton::testing {

/// How the workers of a contract test reach each other: one set of options per rank.
struct TransportCase {
  std::string name;
  std::function<comm::EndpointOptions(int rank)> options;
};

/// Workers of one job as threads of one process: an endpoint each, and generations over any of
/// them.
class Workers {
 public:
  Workers(int count, const TransportCase& transport) {
    for (int rank = 0; rank < count; ++rank) {
      endpoints_.push_back(std::make_unique<comm::Endpoint>(transport.options(rank)));
    }
  }
  comm::Endpoint& endpoint(int worker) { return *endpoints_.at(static_cast<size_t>(worker)); }
  void stop(int worker) { endpoints_.at(static_cast<size_t>(worker)).reset(); }

  comm::Group group(uint64_t generation, const std::vector<int>& workers, int rank) const {
    comm::Group group{Generation(generation), {}, Rank(rank)};
    for (const int worker : workers) {
      group.members.push_back(endpoints_.at(static_cast<size_t>(worker))->address());
    }
    return group;
  }
  std::vector<int> all() const {
    std::vector<int> workers(endpoints_.size());
    for (size_t i = 0; i < workers.size(); ++i) workers[i] = static_cast<int>(i);
    return workers;
  }

  /// Joins on every worker at once; the communicators by rank.
  std::vector<std::unique_ptr<comm::Communicator>> join(uint64_t generation,
                                                        const std::vector<int>& workers) {
    std::vector<std::unique_ptr<comm::Communicator>> result(workers.size());
    each(static_cast<int>(workers.size()), [&](int rank) {
      const auto at = static_cast<size_t>(rank);
      result[at] = endpoint(workers[at]).join(group(generation, workers, rank));
    });
    return result;
  }

  /// Runs body(0..count-1) on threads of their own; the first error is thrown here.
  static void each(int count, const std::function<void(int)>& body) {
    std::vector<std::thread> threads;
    std::vector<std::exception_ptr> errors(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) {
      threads.emplace_back([&, i] {
        try {
          body(i);
        } catch (...) {
          errors[static_cast<size_t>(i)] = std::current_exception();
        }
      });
    }
    for (auto& thread : threads) thread.join();
    for (auto& error : errors) {
      if (error) std::rethrow_exception(error);
    }
  }

 private:
  std::vector<std::unique_ptr<comm::Endpoint>> endpoints_;
};

/// Bytes that name their message, so that a mix-up shows.
inline void fill_message(std::span<std::byte> bytes, uint64_t seed) {
  uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  for (std::byte& byte : bytes) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<std::byte>(state >> 56);
  }
}
inline std::vector<std::byte> message_bytes(size_t size, uint64_t seed) {
  std::vector<std::byte> bytes(size);
  fill_message(bytes, seed);
  return bytes;
}
inline std::vector<std::byte> joined(const comm::Message& message) {
  std::vector<std::byte> bytes;
  for (const auto& piece : message.pieces()) bytes.insert(bytes.end(), piece.begin(), piece.end());
  return bytes;
}
inline std::unique_ptr<comm::PendingSend> send_bytes(comm::Communicator& from, int to,
                                                     uint64_t operation,
                                                     std::span<const std::byte> bytes) {
  return from.send(Rank(to), operation, {&bytes, 1});
}

/// Runs `body`, which must fail, and returns the code it failed with.
inline ErrorCode code_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return error.code();
  }
  ADD_FAILURE() << "nothing failed";
  return ErrorCode::kInternal;
}

}  // namespace craton::testing
