#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "craton/comm/connection.h"
#include "craton/comm/local_segment.h"
#include "craton/comm/shared_log.h"

namespace craton::comm {

/// Two workers of one host. A message is a record in the sender's log that says where in the
/// sender's segment its pieces lie; the receiver reads them there, and answers with a record in its
/// own log. Small messages travel inside the record and need no answer.
///
/// Whoever waits reads the peer's log itself, under the connection's lock, so that no thread stands
/// between two workers. Waits sleep on the peer's doorbell in slices: a wake that came a moment too
/// early costs a slice, not a hang.
class SharedMemoryConnection : public Connection,
                               public std::enable_shared_from_this<SharedMemoryConnection> {
 public:
  explicit SharedMemoryConnection(std::shared_ptr<LocalSegment> local);

  /// Where this side's log begins: told to the peer when the connection is made.
  uint64_t head_offset() const { return writer_.head_offset(); }
  /// Takes the peer's segment. Errors: kCorrupt when it is not the segment of `incarnation`.
  void attach(runtime::FileDescriptor segment, uint64_t head_offset, uint64_t incarnation);

  std::unique_ptr<PendingSend> send(const Call& call, Pieces pieces) override;
  std::unique_ptr<Message> receive(const Call& call) override;
  void drop_below(uint64_t floor) override;
  void collect() override;
  void wake() override;
  void close(const std::string& why) override;

 private:
  friend class SharedMemoryMessage;
  friend class SharedMemorySend;

  /// A message of ours that the peer has not released.
  struct Offer {
    std::atomic<bool> released{false};
    std::vector<std::shared_ptr<runtime::SharedBlock>> blocks;  // kept alive until then
  };
  /// A message of the peer's that nobody has asked for yet.
  struct Arrival {
    uint64_t index = 0;
    std::shared_ptr<std::vector<std::byte>> inlined;  // null: the pieces lie in the peer's segment
    std::vector<std::span<const std::byte>> pieces;
    uint64_t bytes = 0;
  };
  using Key = std::pair<uint64_t, uint64_t>;  // generation, operation

  void drain();  // the lock is held
  void take_message(const LogReader::Record& record);
  uint64_t append(RecordKind kind, Pieces body);
  std::unique_ptr<PendingSend> send_inline(const Call& call, Pieces pieces, size_t bytes);
  std::unique_ptr<PendingSend> send_in_place(const Call& call, Pieces pieces, size_t bytes);
  std::unique_ptr<Message> take_arrival(const Call& call);
  /// False when the sender has left the generation: the bytes may be torn.
  bool still_offered(uint64_t generation) const;
  void acknowledge(uint64_t index) noexcept;
  void append_acknowledge(uint64_t index) noexcept;  // the lock is held
  void wait_for_bell(uint32_t seen, const Call& call, Clock::time_point deadline);
  void wait_released(const Call& call, const Offer& offer);

  const std::shared_ptr<LocalSegment> local_;
  std::shared_ptr<runtime::SegmentView> view_;
  const SegmentHeader* peer_header_ = nullptr;

  std::mutex mutex_;
  LogWriter writer_;
  std::optional<LogReader> reader_;
  std::multimap<Key, Arrival> arrivals_;
  std::unordered_map<uint64_t, std::shared_ptr<Offer>> offers_;
  uint64_t floor_ = 0;
  std::atomic<bool> lost_{false};
  std::string why_;
};

}  // namespace craton::comm
