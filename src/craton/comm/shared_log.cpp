#include "craton/comm/shared_log.h"

#include <cstring>

#include "craton/base/check.h"
#include "craton/base/error.h"
#include "craton/runtime/futex.h"

namespace craton::comm {
namespace {

constexpr size_t kAlign = 16;
constexpr size_t kNextPageBytes = sizeof(RecordHeader) + kAlign;

size_t record_bytes(size_t body) {
  return sizeof(RecordHeader) + (body + kAlign - 1) / kAlign * kAlign;
}

}  // namespace

LogWriter::LogWriter(std::shared_ptr<runtime::SharedSegment> segment)
    : segment_(std::move(segment)), head_(segment_->allocate(sizeof(LogHead))) {
  new (head_->data()) LogHead{};
  pages_.push_back({segment_->allocate(kLogPageBytes)});
  head().first_page.store(pages_.back().block->offset());
}

void LogWriter::publish(RecordKind kind, std::span<const std::span<const std::byte>> body) {
  std::byte* start = pages_.back().block->data() + position_;
  std::byte* out = start + sizeof(RecordHeader);
  for (const auto& part : body) {
    if (!part.empty()) std::memcpy(out, part.data(), part.size());
    out += part.size();
  }
  const size_t bytes = static_cast<size_t>(out - start) - sizeof(RecordHeader);
  auto* header = reinterpret_cast<RecordHeader*>(start);
  header->kind = kind;
  header->bytes = static_cast<uint32_t>(bytes);
  header->index.store(next_index_++, std::memory_order_release);
  position_ += record_bytes(bytes);
}

void LogWriter::turn_page(uint64_t read_by_peer) {
  while (pages_.size() > 1 && pages_.front().last_index <= read_by_peer) {
    free_.push_back(std::move(pages_.front().block));
    pages_.pop_front();
  }
  std::shared_ptr<runtime::SharedBlock> block;
  if (!free_.empty()) {
    block = std::move(free_.back());
    free_.pop_back();
    std::memset(block->data(), 0, kLogPageBytes);
    free_.resize(std::min<size_t>(free_.size(), 2));
  } else if (pages_.size() < kLogPages) {
    block = segment_->allocate(kLogPageBytes);
  } else {
    fail(ErrorCode::kResourceExhausted, "a peer has left {} MiB of messages unread",
         (kLogPages * kLogPageBytes) >> 20);
  }
  const uint64_t offset = block->offset();
  const std::span<const std::byte> body = std::as_bytes(std::span(&offset, 1));
  pages_.back().last_index = next_index_;
  publish(RecordKind::kNextPage, {&body, 1});
  pages_.push_back({std::move(block)});
  position_ = 0;
}

uint64_t LogWriter::append(RecordKind kind, std::span<const std::span<const std::byte>> body,
                           uint64_t read_by_peer) {
  size_t bytes = 0;
  for (const auto& part : body) bytes += part.size();
  CRATON_CHECK(bytes <= kMaxRecordBytes, "a record of {} bytes", bytes);
  if (position_ + record_bytes(bytes) + kNextPageBytes > kLogPageBytes) turn_page(read_by_peer);
  publish(kind, body);
  return next_index_ - 1;
}

void LogWriter::ring() {
  head().doorbell.fetch_add(1);
  runtime::futex_wake_all(head().doorbell);
}

LogReader::LogReader(std::shared_ptr<runtime::SegmentView> view, uint64_t head_offset)
    : view_(std::move(view)),
      head_(reinterpret_cast<const LogHead*>(view_->at(head_offset, sizeof(LogHead)))),
      page_(view_->at(head_->first_page.load(), kLogPageBytes)) {}

std::optional<LogReader::Record> LogReader::next() {
  while (true) {
    const auto* header = reinterpret_cast<const RecordHeader*>(page_ + position_);
    if (header->index.load(std::memory_order_acquire) != next_index_) return std::nullopt;
    const size_t size = record_bytes(header->bytes);
    if (header->bytes > kMaxRecordBytes || position_ + size > kLogPageBytes) {
      fail(ErrorCode::kCorrupt, "a peer's log has a record of {} bytes", header->bytes);
    }
    const Record record{
        next_index_++, header->kind, {page_ + position_ + sizeof(RecordHeader), header->bytes}};
    position_ += size;
    if (record.kind != RecordKind::kNextPage) return record;
    uint64_t offset = 0;
    if (record.body.size() != sizeof(offset)) fail(ErrorCode::kCorrupt, "a peer's log ends badly");
    std::memcpy(&offset, record.body.data(), sizeof(offset));
    page_ = view_->at(offset, kLogPageBytes);
    position_ = 0;
  }
}

}  // namespace craton::comm
