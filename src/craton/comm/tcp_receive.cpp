#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "craton/base/error.h"
#include "craton/comm/tcp_connection.h"
#include "craton/runtime/socket.h"

namespace craton::comm {
namespace {

constexpr size_t kInputBytes = 192 << 10;  // holds a header with the longest table
constexpr size_t kReadAhead = 16 << 10;    // short, so that payload goes straight to where it stays
constexpr int kReadsPerTurn = 16;          // then other connections have their turn
constexpr uint64_t kMaxMessageBytes = uint64_t{1} << 40;
static_assert(kInputBytes >= sizeof(FrameHeader) + kMaxPieces * sizeof(uint64_t) + kReadAhead);

}  // namespace

class TcpMessage : public Message {
 public:
  TcpMessage(Call call, Landing landing, std::vector<std::span<const std::byte>> pieces)
      : call_(std::move(call)), landing_(std::move(landing)), pieces_(std::move(pieces)) {}
  const std::vector<std::span<const std::byte>>& pieces() const override { return pieces_; }
  void release() override {
    landing_.reset();
    call_.check();
  }

 private:
  Call call_;
  Landing landing_;
  std::vector<std::span<const std::byte>> pieces_;
};

std::unique_ptr<Message> TcpConnection::receive(const Call& call) {
  const auto deadline = call.state->deadline();
  std::unique_lock lock(in_mutex_);
  ++waiters_;
  struct Leave {
    int& waiters;
    ~Leave() { --waiters; }
  } leave{waiters_};
  while (true) {
    call.check();
    const auto it = arrivals_.find({call.generation(), call.operation});
    if (it != arrivals_.end()) {
      auto message = std::make_unique<TcpMessage>(call, std::move(it->second.landing),
                                                  std::move(it->second.pieces));
      held_bytes_ -= it->second.bytes;
      call.state->bytes_received += it->second.bytes;
      arrivals_.erase(it);
      if (held_bytes_ <= limits_.landing_bytes) resume_if_paused();
      return message;
    }
    if (lost_.load()) call.throw_lost(why_);
    if (peer_floor_ > call.generation()) call.throw_ended("the peer left the generation");
    if (Clock::now() >= deadline) call.throw_timeout("receiving");
    resume_if_paused();
    in_wake_.wait_until(lock, deadline);
  }
}

void TcpConnection::on_events(uint32_t events) {
  if (lost_.load()) return;
  if (events & EPOLLOUT) {
    std::lock_guard lock(out_mutex_);
    want_write_.store(
        true);  // whatever the loop was told last, it is told again if nothing is left
    write_frames();
  }
  if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) {
    hung_up_ = true;
    paused_.store(false);
  }
  if (events & ~uint32_t{EPOLLOUT}) read_frames();
}

void TcpConnection::read_frames() {
  try {
    if (input_.empty()) input_.resize(kInputBytes);
    for (int turn = 0; turn < kReadsPerTurn; ++turn) {
      while (parse()) {
      }
      if (paused_.load() || lost_.load() || fill() == 0) break;
    }
    while (parse()) {
    }
    if (broken_.load()) fail_link("its connection broke");
  } catch (const std::exception& error) {
    fail_link(error.what());
  }
}

size_t TcpConnection::fill() {
  if (input_begin_ == input_end_) input_begin_ = input_end_ = 0;
  if (input_begin_ > 0 && input_end_ + kReadAhead > input_.size()) {
    std::memmove(input_.data(), input_.data() + input_begin_, input_end_ - input_begin_);
    input_end_ -= input_begin_;
    input_begin_ = 0;
  }
  std::array<iovec, 2> parts;
  size_t count = 0;
  const bool direct = payload_left_ > 0 && !discarding_;
  if (direct) {
    parts[count++] = {partial_arrival_.landing.get() + assembled_, payload_left_};
  }
  parts[count++] = {input_.data() + input_end_, std::min(kReadAhead, input_.size() - input_end_)};
  const auto n = runtime::receive_pieces(socket_.get(), {parts.data(), count});
  if (!n) {
    fail_link("its connection closed");
    return 0;
  }
  size_t buffered = *n;
  if (direct) {
    const size_t landed = std::min<size_t>(*n, payload_left_);
    buffered -= landed;
    assembled_ += landed;
    payload_left_ -= landed;
    if (landed > 0 && payload_left_ == 0) finish_payload();
  }
  input_end_ += buffered;
  return *n;
}

bool TcpConnection::parse() {
  const size_t available = input_end_ - input_begin_;
  if (lost_.load()) return false;
  if (payload_left_ == 0) return parse_header();
  const size_t n = std::min<size_t>(available, payload_left_);
  if (n == 0) return false;
  if (!discarding_) {
    std::memcpy(partial_arrival_.landing.get() + assembled_, input_.data() + input_begin_, n);
    assembled_ += n;
  }
  input_begin_ += n;
  payload_left_ -= n;
  if (payload_left_ == 0) finish_payload();
  return true;
}

bool TcpConnection::parse_header() {
  const size_t available = input_end_ - input_begin_;
  if (available < sizeof(FrameHeader) || pause_if_full()) return false;
  std::memcpy(&header_, input_.data() + input_begin_, sizeof(header_));
  if (header_.magic != kFrameMagic || header_.length > kFrameBytes || header_.pieces > kMaxPieces ||
      header_.message_bytes > kMaxMessageBytes) {
    fail(ErrorCode::kCorrupt, "it sent something that is no frame");
  }
  const size_t table = header_.first ? header_.pieces * sizeof(uint64_t) : 0;
  if (available < sizeof(FrameHeader) + table) return false;
  const std::byte* after = input_.data() + input_begin_ + sizeof(FrameHeader);
  input_begin_ += sizeof(FrameHeader) + table;
  if (header_.kind == static_cast<uint16_t>(FrameKind::kFloor)) {
    {
      std::lock_guard lock(in_mutex_);
      peer_floor_ = std::max(peer_floor_, header_.generation);
    }
    in_wake_.notify_all();
    return true;
  }
  if (header_.first)
    begin_message({after, table});
  else
    continue_message();
  payload_left_ = header_.length;
  if (payload_left_ == 0) finish_payload();
  return true;
}

void TcpConnection::begin_message(std::span<const std::byte> table) {
  partial_arrival_ = {};  // a message that was cut short by an abort ends here
  assembled_ = 0;
  {
    std::lock_guard lock(in_mutex_);
    discarding_ = header_.generation < floor_;
  }
  partial_key_ = {header_.generation, header_.operation};
  if (discarding_) return;
  std::vector<uint64_t> sizes(header_.pieces);
  if (!table.empty()) std::memcpy(sizes.data(), table.data(), table.size());
  uint64_t sum = 0;
  for (const uint64_t size : sizes) {
    if (size > header_.message_bytes - sum) fail(ErrorCode::kCorrupt, "its pieces do not add up");
    sum += size;
  }
  if (sum != header_.message_bytes || header_.length > sum) {
    fail(ErrorCode::kCorrupt, "its pieces do not add up");
  }
  partial_arrival_.bytes = sum;
  partial_arrival_.landing = limits_.pool->take(sum);
  const std::byte* at = partial_arrival_.landing.get();
  for (const uint64_t size : sizes) {
    partial_arrival_.pieces.emplace_back(at, size);
    at += size;
  }
}

void TcpConnection::continue_message() {
  if (partial_key_ != Key{header_.generation, header_.operation}) {
    fail(ErrorCode::kCorrupt, "it sent a frame of no message");
  }
  if (discarding_) return;
  if (header_.offset != assembled_ || header_.length > partial_arrival_.bytes - assembled_) {
    fail(ErrorCode::kCorrupt, "it sent a frame at byte {} of a message, expected {}",
         header_.offset, assembled_);
  }
}

void TcpConnection::finish_payload() {
  if (discarding_ || assembled_ < partial_arrival_.bytes) return;
  {
    std::lock_guard lock(in_mutex_);
    if (partial_key_.first >= floor_) {
      held_bytes_ += partial_arrival_.bytes;
      arrivals_.emplace(partial_key_, std::move(partial_arrival_));
    }
  }
  partial_arrival_ = {};
  discarding_ = true;  // nothing of this message may follow
  in_wake_.notify_all();
}

bool TcpConnection::pause_if_full() {
  {
    std::lock_guard lock(in_mutex_);
    if (held_bytes_ <= limits_.landing_bytes || waiters_ > 0 || hung_up_) return false;
    paused_.store(true);
  }
  watch();
  return true;
}

void TcpConnection::resume_if_paused() {
  if (!paused_.exchange(false)) return;
  loop_->post([self = shared_from_this()] {
    self->watch();
    self->read_frames();
  });
}

void TcpConnection::fail_link(const std::string& why) {
  if (lost_.load()) return;
  close(why);
  on_lost_(this, why_);
}

}  // namespace craton::comm
