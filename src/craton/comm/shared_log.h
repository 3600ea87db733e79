#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "craton/runtime/shared_segment.h"

namespace craton::comm {

/// A one-way stream of records from one worker to one peer, in the writer's segment.
///
/// Records lie one behind the other in pages; the last record of a page names the next page. A
/// record counts once its index stands in its header, which is written last: a writer that dies
/// before has written nothing. The reader counts what it has read in its own segment, and the
/// writer reuses the pages that the count has passed. So neither side writes the other's memory,
/// and nobody can be left holding a lock.
struct LogHead {
  alignas(64) std::atomic<uint32_t> doorbell;      ///< grows when there is something to look at
  alignas(64) std::atomic<uint64_t> records_read;  ///< of the opposite log, by this log's writer
  std::atomic<uint64_t> first_page;                ///< offset in the segment
};

enum class RecordKind : uint32_t { kMessage = 1, kAcknowledge = 2, kNextPage = 3 };

struct RecordHeader {
  std::atomic<uint64_t> index;  // 1, 2, ...; anything else: not there yet
  RecordKind kind;
  uint32_t bytes;  // of the body
};
static_assert(sizeof(RecordHeader) == 16 && std::atomic<uint64_t>::is_always_lock_free);

inline constexpr size_t kLogPageBytes = 64 << 10;
inline constexpr size_t kLogPages = 1024;  // bound on what a peer may leave unread
inline constexpr size_t kMaxRecordBytes = 48 << 10;

/// Not thread-safe.
class LogWriter {
 public:
  explicit LogWriter(std::shared_ptr<runtime::SharedSegment> segment);
  LogHead& head() { return *reinterpret_cast<LogHead*>(head_->data()); }
  uint64_t head_offset() const { return head_->offset(); }

  /// Publishes a record and returns its index; `read_by_peer` is the peer's count. Does not ring.
  /// Error kResourceExhausted when the peer has left too much unread.
  uint64_t append(RecordKind kind, std::span<const std::span<const std::byte>> body,
                  uint64_t read_by_peer);
  void ring();

 private:
  struct Page {
    std::shared_ptr<runtime::SharedBlock> block;
    uint64_t last_index = 0;
  };
  void publish(RecordKind kind, std::span<const std::span<const std::byte>> body);
  void turn_page(uint64_t read_by_peer);

  std::shared_ptr<runtime::SharedSegment> segment_;
  std::shared_ptr<runtime::SharedBlock> head_;
  std::deque<Page> pages_;  // the last one is written to
  std::vector<std::shared_ptr<runtime::SharedBlock>> free_;
  size_t position_ = 0;
  uint64_t next_index_ = 1;
};

/// Not thread-safe.
class LogReader {
 public:
  struct Record {
    uint64_t index;
    RecordKind kind;
    std::span<const std::byte> body;  // readable until read() has been published
  };
  LogReader(std::shared_ptr<runtime::SegmentView> view, uint64_t head_offset);
  const LogHead& head() const { return *head_; }
  std::optional<Record> next();
  uint64_t read() const { return next_index_ - 1; }

 private:
  std::shared_ptr<runtime::SegmentView> view_;
  const LogHead* head_;
  const std::byte* page_;
  size_t position_ = 0;
  uint64_t next_index_ = 1;
};

}  // namespace craton::comm
