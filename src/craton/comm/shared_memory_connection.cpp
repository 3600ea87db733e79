#include "craton/comm/shared_memory_connection.h"

#include <algorithm>
#include <cstring>

#include "craton/base/error.h"
#include "craton/runtime/futex.h"

namespace craton::comm {
namespace {

constexpr size_t kInlineBytes = 2048;
constexpr size_t kInlinePieces = 64;
constexpr size_t kTablePieces = 2048;  // longer tables lie in a staged block
constexpr size_t kArrivalLimit = 1 << 20;
constexpr std::chrono::milliseconds kSlice{20};
constexpr int kSpins = 100;

struct MessageBody {
  uint64_t generation, operation;
  uint32_t pieces;
  uint32_t form;          // kInline, kTable, kTableElsewhere
  uint64_t table_offset;  // kTableElsewhere
};
enum Form : uint32_t { kInline, kTable, kTableElsewhere };

/// kInline: `offset` is unused and the bytes follow the table.
struct PieceEntry {
  uint64_t offset, bytes;
};

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

}  // namespace

class SharedMemorySend : public PendingSend {
 public:
  SharedMemorySend(std::shared_ptr<SharedMemoryConnection> connection, Call call,
                   std::shared_ptr<SharedMemoryConnection::Offer> offer)
      : connection_(std::move(connection)), call_(std::move(call)), offer_(std::move(offer)) {}
  void wait() override {
    if (offer_)
      connection_->wait_released(call_, *offer_);
    else
      call_.check();
  }

 private:
  std::shared_ptr<SharedMemoryConnection> connection_;
  Call call_;
  std::shared_ptr<SharedMemoryConnection::Offer> offer_;  // null: the bytes went with the record
};

class SharedMemoryMessage : public Message {
 public:
  SharedMemoryMessage(std::shared_ptr<SharedMemoryConnection> connection, Call call,
                      SharedMemoryConnection::Arrival arrival)
      : connection_(std::move(connection)), call_(std::move(call)), arrival_(std::move(arrival)) {}
  ~SharedMemoryMessage() override { finish(); }
  const std::vector<std::span<const std::byte>>& pieces() const override { return arrival_.pieces; }
  void release() override {
    const bool good =
        arrival_.inlined || released_ || connection_->still_offered(call_.generation());
    finish();
    call_.check();
    if (!good) call_.throw_ended("the sender left the generation while its bytes were read");
  }

 private:
  void finish() {
    if (!released_ && !arrival_.inlined) connection_->acknowledge(arrival_.index);
    released_ = true;
  }
  std::shared_ptr<SharedMemoryConnection> connection_;
  Call call_;
  SharedMemoryConnection::Arrival arrival_;
  bool released_ = false;
};

SharedMemoryConnection::SharedMemoryConnection(std::shared_ptr<LocalSegment> local)
    : local_(std::move(local)), writer_(local_->share()) {}

void SharedMemoryConnection::attach(runtime::FileDescriptor segment, uint64_t head_offset,
                                    uint64_t incarnation) {
  auto view = std::make_shared<runtime::SegmentView>(std::move(segment));
  peer_header_ = reinterpret_cast<const SegmentHeader*>(view->at(0, sizeof(SegmentHeader)));
  if (peer_header_->magic != kSegmentMagic || peer_header_->incarnation != incarnation) {
    fail(ErrorCode::kCorrupt, "a peer handed out memory that is not its segment");
  }
  reader_.emplace(view, head_offset);
  view_ = std::move(view);
}

uint64_t SharedMemoryConnection::append(RecordKind kind, Pieces body) {
  return writer_.append(kind, body, reader_->head().records_read.load(std::memory_order_acquire));
}

std::unique_ptr<PendingSend> SharedMemoryConnection::send(const Call& call, Pieces pieces) {
  call.check();
  size_t bytes = 0;
  for (const auto& piece : pieces) bytes += piece.size();
  call.state->bytes_sent += bytes;
  call.state->messages += 1;
  return bytes <= kInlineBytes && pieces.size() <= kInlinePieces
             ? send_inline(call, pieces, bytes)
             : send_in_place(call, pieces, bytes);
}

std::unique_ptr<PendingSend> SharedMemoryConnection::send_inline(const Call& call, Pieces pieces,
                                                                 size_t bytes) {
  const MessageBody body{call.generation(), call.operation, static_cast<uint32_t>(pieces.size()),
                         kInline, 0};
  std::vector<PieceEntry> table;
  for (const auto& piece : pieces) table.push_back({0, piece.size()});
  std::vector<std::span<const std::byte>> parts{bytes_of(body), std::as_bytes(std::span(table))};
  parts.insert(parts.end(), pieces.begin(), pieces.end());
  {
    std::lock_guard lock(mutex_);
    if (lost_.load()) call.throw_lost(why_);
    append(RecordKind::kMessage, parts);
    drain();
  }
  writer_.ring();
  return std::make_unique<SharedMemorySend>(shared_from_this(), call, nullptr);
}

std::unique_ptr<PendingSend> SharedMemoryConnection::send_in_place(const Call& call, Pieces pieces,
                                                                   size_t bytes) {
  auto offer = std::make_shared<Offer>();
  std::vector<PieceEntry> table(pieces.size());
  size_t foreign = 0;  // bytes outside of the segment, each piece on a cache line of its own
  const auto padded = [](size_t n) { return (n + 63) / 64 * 64; };
  for (size_t i = 0; i < pieces.size(); ++i) {
    table[i].bytes = pieces[i].size();
    auto block = local_->memory().find(pieces[i].data(), pieces[i].size());
    if (block) {
      table[i].offset = block->offset_of(pieces[i].data());
      if (offer->blocks.empty() || offer->blocks.back() != block) offer->blocks.push_back(block);
    } else {
      foreign += padded(pieces[i].size());
    }
  }
  const size_t table_bytes =
      table.size() > kTablePieces ? padded(table.size() * sizeof(PieceEntry)) : 0;
  MessageBody body{call.generation(), call.operation, static_cast<uint32_t>(pieces.size()), kTable,
                   0};
  std::vector<std::span<const std::byte>> parts{bytes_of(body)};
  if (foreign + table_bytes > 0) {
    auto stage = local_->stage(foreign + table_bytes);
    std::byte* out = stage->data() + table_bytes;
    for (size_t i = 0; i < pieces.size(); ++i) {
      if (table[i].offset != 0) continue;  // offset 0 is the header's: no piece lies there
      if (!pieces[i].empty()) std::memcpy(out, pieces[i].data(), pieces[i].size());
      table[i].offset = stage->offset_of(out);
      out += padded(pieces[i].size());
    }
    if (table_bytes > 0) {
      std::memcpy(stage->data(), table.data(), table.size() * sizeof(PieceEntry));
      body.form = kTableElsewhere;
      body.table_offset = stage->offset();
    }
    offer->blocks.push_back(std::move(stage));
  }
  if (table_bytes == 0) parts.push_back(std::as_bytes(std::span(table)));
  {
    std::lock_guard lock(mutex_);
    if (lost_.load()) call.throw_lost(why_);
    offers_[append(RecordKind::kMessage, parts)] = offer;
    drain();
  }
  writer_.ring();
  return std::make_unique<SharedMemorySend>(shared_from_this(), call, std::move(offer));
}

void SharedMemoryConnection::take_message(const LogReader::Record& record) {
  MessageBody body;
  if (record.body.size() < sizeof(body)) fail(ErrorCode::kCorrupt, "a peer's message is cut short");
  std::memcpy(&body, record.body.data(), sizeof(body));
  auto rest = record.body.subspan(sizeof(body));
  const size_t table_bytes = body.pieces * sizeof(PieceEntry);
  if (body.generation < floor_) {
    if (body.form != kInline) append_acknowledge(record.index);
    return;
  }
  std::vector<PieceEntry> table(body.pieces);
  if (body.form == kTableElsewhere) rest = {view_->at(body.table_offset, table_bytes), table_bytes};
  if (rest.size() < table_bytes) fail(ErrorCode::kCorrupt, "a peer's message is cut short");
  if (table_bytes > 0) std::memcpy(table.data(), rest.data(), table_bytes);
  Arrival arrival;
  arrival.index = record.index;
  arrival.pieces.reserve(table.size());
  if (body.form == kInline) {
    rest = rest.subspan(table_bytes);
    arrival.inlined = std::make_shared<std::vector<std::byte>>(rest.begin(), rest.end());
  }
  for (const PieceEntry& entry : table) {
    const std::byte* data = nullptr;
    if (body.form == kInline) {
      if (arrival.bytes + entry.bytes > rest.size()) {
        fail(ErrorCode::kCorrupt, "a peer's message is cut short");
      }
      data = arrival.inlined->data() + arrival.bytes;
    } else {
      data = view_->at(entry.offset, entry.bytes);
    }
    arrival.pieces.emplace_back(data, entry.bytes);
    arrival.bytes += entry.bytes;
  }
  arrivals_.emplace(Key{body.generation, body.operation}, std::move(arrival));
}

void SharedMemoryConnection::drain() {
  while (arrivals_.size() < kArrivalLimit) {
    const auto record = reader_->next();
    if (!record) break;
    if (record->kind == RecordKind::kMessage) {
      take_message(*record);
    } else if (record->kind == RecordKind::kAcknowledge &&
               record->body.size() == sizeof(uint64_t)) {
      uint64_t index;
      std::memcpy(&index, record->body.data(), sizeof(index));
      const auto it = offers_.find(index);
      if (it == offers_.end()) continue;
      it->second->released.store(true);
      it->second->blocks.clear();
      offers_.erase(it);
    }
  }
  writer_.head().records_read.store(reader_->read(), std::memory_order_release);
}

void SharedMemoryConnection::acknowledge(uint64_t index) noexcept {
  std::lock_guard lock(mutex_);
  append_acknowledge(index);
}

void SharedMemoryConnection::append_acknowledge(uint64_t index) noexcept {
  if (lost_.load()) return;
  try {
    const std::span<const std::byte> body = bytes_of(index);
    append(RecordKind::kAcknowledge, {&body, 1});
    writer_.ring();
  } catch (const std::exception& error) {
    why_ = fmt::format("cannot acknowledge a message: {}", error.what());
    lost_.store(true);
  }
}

bool SharedMemoryConnection::still_offered(uint64_t generation) const {
  // The sender raises its floor before it touches the bytes; so bytes that were read before a floor
  // that is still low are whole.
  std::atomic_thread_fence(std::memory_order_acquire);
  return peer_header_->floor.load(std::memory_order_relaxed) <= generation;
}

std::unique_ptr<Message> SharedMemoryConnection::take_arrival(const Call& call) {
  const auto it = arrivals_.find({call.generation(), call.operation});
  if (it == arrivals_.end()) return nullptr;
  call.state->bytes_received += it->second.bytes;
  auto message =
      std::make_unique<SharedMemoryMessage>(shared_from_this(), call, std::move(it->second));
  arrivals_.erase(it);
  return message;
}

std::unique_ptr<Message> SharedMemoryConnection::receive(const Call& call) {
  const auto deadline = call.state->deadline();
  while (true) {
    call.check();
    // Both are read before the log: what the peer published first is then seen.
    const bool lost = lost_.load();
    const bool left = peer_header_->floor.load() > call.generation();
    const uint32_t bell = reader_->head().doorbell.load(std::memory_order_acquire);
    {
      std::lock_guard lock(mutex_);
      drain();
      if (auto message = take_arrival(call)) return message;
      if (lost) call.throw_lost(why_);
      if (arrivals_.size() >= kArrivalLimit) {
        fail(ErrorCode::kResourceExhausted, "a peer sent {} messages that nobody asked for",
             arrivals_.size());
      }
    }
    if (left) call.throw_ended("the peer left the generation");
    if (Clock::now() >= deadline) call.throw_timeout("receiving");
    wait_for_bell(bell, call, deadline);
  }
}

void SharedMemoryConnection::wait_released(const Call& call, const Offer& offer) {
  const auto deadline = call.state->deadline();
  while (true) {
    call.check();
    if (offer.released.load()) return;
    const bool lost = lost_.load();
    const bool left = peer_header_->floor.load() > call.generation();
    const uint32_t bell = reader_->head().doorbell.load(std::memory_order_acquire);
    {
      std::lock_guard lock(mutex_);
      drain();
      if (offer.released.load()) return;
      if (lost) call.throw_lost(why_);
    }
    if (left) call.throw_ended("the peer left the generation");
    if (Clock::now() >= deadline) call.throw_timeout("waiting for the receiver");
    wait_for_bell(bell, call, deadline);
  }
}

void SharedMemoryConnection::wait_for_bell(uint32_t seen, const Call& call,
                                           Clock::time_point deadline) {
  const auto& bell = reader_->head().doorbell;
  for (int i = 0; i < kSpins; ++i) {
    if (bell.load(std::memory_order_acquire) != seen) return;
    runtime::spin_pause();
  }
  if (call.state->ended.load() || lost_.load()) return;
  runtime::futex_wait(bell, seen,
                      std::min<std::chrono::nanoseconds>(kSlice, deadline - Clock::now()));
}

void SharedMemoryConnection::drop_below(uint64_t floor) {
  std::vector<uint64_t> unread;
  {
    std::lock_guard lock(mutex_);
    floor_ = std::max(floor_, floor);
    if (!reader_) return;
    for (auto it = arrivals_.begin(); it != arrivals_.end() && it->first.first < floor_;) {
      if (!it->second.inlined) unread.push_back(it->second.index);
      it = arrivals_.erase(it);
    }
  }
  for (const uint64_t index : unread) acknowledge(index);
  writer_.ring();  // the peer looks at our floor
}

void SharedMemoryConnection::collect() {
  std::lock_guard lock(mutex_);
  if (reader_ && !lost_.load()) drain();
}

void SharedMemoryConnection::wake() {
  if (reader_) runtime::futex_wake_all(reader_->head().doorbell);
}

void SharedMemoryConnection::close(const std::string& why) {
  {
    std::lock_guard lock(mutex_);
    if (lost_.load()) return;
    why_ = why;
    lost_.store(true);
    offers_.clear();
  }
  if (reader_) runtime::futex_wake_all(reader_->head().doorbell);
}

}  // namespace craton::comm
