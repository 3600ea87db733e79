#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "craton/comm/communicator.h"

namespace craton::comm {

using Clock = std::chrono::steady_clock;
using Pieces = std::span<const std::span<const std::byte>>;

/// What the calls of one generation share. Outlives its Communicator in messages and pending sends.
struct GenerationState {
  explicit GenerationState(Generation g) : generation(g) {}
  const Generation generation;
  std::atomic<bool> ended{false};
  std::atomic<int64_t> timeout_ms{120'000};
  std::atomic<uint64_t> bytes_sent{0}, bytes_received{0}, messages{0};

  Clock::time_point deadline() const {
    return Clock::now() + std::chrono::milliseconds(timeout_ms.load());
  }
};

/// Names one message for the transport and for errors.
struct Call {
  std::shared_ptr<GenerationState> state;
  Rank peer;
  uint64_t operation = 0;

  uint64_t generation() const { return state->generation.value(); }
  void check() const {
    if (state->ended.load()) throw_ended("this worker left the generation");
  }
  [[noreturn]] void throw_ended(std::string_view why) const;
  [[noreturn]] void throw_lost(const std::string& why) const;
  [[noreturn]] void throw_timeout(std::string_view what) const;
};

/// Bytes to and from one incarnation of a peer; outlives generations. Thread-safe.
class Connection {
 public:
  virtual ~Connection() = default;
  virtual std::unique_ptr<PendingSend> send(const Call& call, Pieces pieces) = 0;
  virtual std::unique_ptr<Message> receive(const Call& call) = 0;
  /// Generations below `floor` are over: forgets what they sent or queued, and tells the peer. When
  /// it returns, no piece that they sent is read here any more.
  virtual void drop_below(uint64_t floor) = 0;
  /// Frees the copies that the peer has read by now.
  virtual void collect() {}
  /// Lets every wait look at its generation again.
  virtual void wake() = 0;
  /// The peer is gone: every wait ends. Idempotent.
  virtual void close(const std::string& why) = 0;
};

}  // namespace craton::comm
