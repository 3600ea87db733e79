#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "craton/base/strong.h"

namespace craton::comm {

/// Where a buffer's bytes live. Device memory needs a build with an accelerator runtime; without
/// one its allocator's `is_available()` is false.
enum class MemoryKind { kHost, kShared, kDevice };

/// Memory of an endpoint, freed with its last copy. kShared: peers of the same host read it in
/// place, so that sends from it copy nothing.
class Buffer {
 public:
  Buffer() = default;
  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  MemoryKind kind() const { return kind_; }
  template <typename T>
  std::span<T> as() const {
    return {reinterpret_cast<T*>(data_), size_ / sizeof(T)};
  }

 private:
  friend class Endpoint;
  std::shared_ptr<void> owner_;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
  MemoryKind kind_ = MemoryKind::kHost;
};

/// How others reach a worker. Plain values: they travel in the membership message.
struct PeerAddress {
  uint64_t incarnation = 0;  ///< unique per process start; a stale address fails the handshake
  std::string
      host_id;  ///< boot id + network/ipc namespace: equal means that shared memory can work
  std::string local_socket;  ///< abstract unix socket over which segments are handed out
  std::string tcp_host;
  uint16_t tcp_port = 0;
};

struct Group {
  Generation generation;
  std::vector<PeerAddress> members;  ///< by rank
  Rank self;
};

enum class TransportChoice { kAuto, kSharedMemory, kTcp };

struct EndpointOptions {
  uint64_t incarnation = 0;  ///< 0: picked
  TransportChoice transport =
      TransportChoice::kAuto;             ///< kAuto: shared memory within a host, TCP otherwise
  std::string listen_host = "127.0.0.1";  ///< numeric address; "" for all interfaces
  std::string advertise_host;             ///< what others connect to; empty: listen_host
  std::string host_id;                    ///< empty: found out; shared memory joins equal ones
  std::chrono::milliseconds connect_timeout{10000};
  /// Groups up to this size connect all pairs in `join`; in larger ones a pair connects at its
  /// first message, so that a generation costs only the connections that it uses.
  int connect_all_up_to = 64;
  /// Bound on copies of pieces that lie outside of the endpoint's buffers, all peers together.
  uint64_t staging_limit_bytes = uint64_t{1} << 30;
  /// TCP: received and not yet asked for, per peer; past it the connection is read only while a
  /// `receive` waits for it.
  uint64_t landing_limit_bytes = uint64_t{256} << 20;
};

/// A received message, in the pieces that were sent: views of the sender's memory (shared memory)
/// or of a landing buffer (TCP). Destroying it tells the sender that the bytes have been read.
class Message {
 public:
  virtual ~Message() = default;
  /// Readable until `release`.
  virtual const std::vector<std::span<const std::byte>>& pieces() const = 0;
  size_t bytes() const {
    size_t sum = 0;
    for (const auto& piece : pieces()) sum += piece.size();
    return sum;
  }
  /// Ends the reading, and throws kGenerationEnded when the sender left the generation meanwhile
  /// and may have changed the bytes under the reader. Call it before what was read is relied upon;
  /// the destructor cannot tell.
  virtual void release() = 0;
};

/// A send in flight; destroying it does not cancel.
class PendingSend {
 public:
  virtual ~PendingSend() = default;
  /// Until the pieces may be changed again: TCP has taken them, or the receiver has released its
  /// Message. After kTimeout a receiver may still be reading.
  virtual void wait() = 0;
};

struct Traffic {
  uint64_t bytes_sent = 0, bytes_received = 0, messages = 0;
};

/// The workers of one generation. Several threads may use it at once, for different operations.
///
/// An operation number names one message between two ranks within the generation; sender and
/// receiver derive it from the protocol (step, phase, bucket), so no order of arrival is assumed
/// between operations. Messages of other generations are dropped. Every wait ends: with the bytes,
/// with kTimeout, with kPeerLost (the peer's process is gone), or with kGenerationEnded after an
/// `abort` here, or at the peer that should have sent. The last two have Reaction::kReconfigure.
/// What a peer sent before it went is still received.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual Generation generation() const = 0;
  virtual Rank rank() const = 0;
  virtual int world_size() const = 0;

  /// Never blocks on the receiver (in groups past connect_all_up_to the first message to a rank
  /// waits for the connection). Pieces in buffers of the endpoint are not copied and must stay
  /// unchanged until `wait`; others are staged.
  virtual std::unique_ptr<PendingSend> send(Rank to, uint64_t operation,
                                            std::span<const std::span<const std::byte>> pieces) = 0;
  virtual std::unique_ptr<Message> receive(Rank from, uint64_t operation) = 0;

  /// From any thread: every blocked and later call of this generation throws kGenerationEnded.
  /// Connections live on for the next generation.
  virtual void abort() = 0;
  /// Throws kGenerationEnded when the generation is over; for work between two calls.
  virtual void check() = 0;
  /// Bound on every single wait (default 120 s).
  virtual void set_timeout(std::chrono::milliseconds timeout) = 0;
  virtual Traffic traffic() const = 0;
};

/// One per process; outlives generations. Owns listening sockets, connections and the shared
/// segment.
class Endpoint {
 public:
  explicit Endpoint(const EndpointOptions& options = {});
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;
  ~Endpoint();

  const PeerAddress& address() const;
  /// Zeroed, 64-byte aligned; kShared unless the transport is TCP only.
  Buffer allocate(size_t bytes);
  /// Opens what connections are missing, in parallel, and starts the generation; older ones end as
  /// by `abort`. Errors: kGenerationEnded when the generation is not newer than the last one
  /// joined, or fenced off; kPeerLost when a member is gone or its address belongs to another
  /// incarnation; kTimeout when one does not answer.
  std::unique_ptr<Communicator> join(const Group& group);
  /// From any thread: ends every generation below `next`, also a `join` that is still waiting, and
  /// refuses them from now on.
  void fence(Generation next);

  class State;  ///< internal

 private:
  std::shared_ptr<State> state_;
};

}  // namespace craton::comm
