#include "craton/comm/tcp_connection.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "craton/base/error.h"
#include "craton/runtime/socket.h"

// Construction, sending and closing; tcp_receive.cpp has the other direction.
namespace craton::comm {
namespace {
constexpr size_t kFramePieces = 512;  // the system takes at most 1024 at once
}

class TcpSend : public PendingSend {
 public:
  TcpSend(std::shared_ptr<TcpConnection> connection, Call call,
          std::shared_ptr<TcpConnection::Outgoing> outgoing)
      : connection_(std::move(connection)),
        call_(std::move(call)),
        outgoing_(std::move(outgoing)) {}
  void wait() override { connection_->wait_taken(call_, *outgoing_); }

 private:
  std::shared_ptr<TcpConnection> connection_;
  Call call_;
  std::shared_ptr<TcpConnection::Outgoing> outgoing_;
};

TcpConnection::TcpConnection(runtime::FileDescriptor socket,
                             std::shared_ptr<runtime::EventLoop> loop, Limits limits,
                             OnLost on_lost)
    : socket_(std::move(socket)),
      loop_(std::move(loop)),
      limits_(std::move(limits)),
      on_lost_(std::move(on_lost)) {
  runtime::tune_tcp(socket_.get());
}

void TcpConnection::start() {
  std::lock_guard lock(watch_mutex_);
  watch_id_ = loop_->add(socket_.get(), EPOLLIN | EPOLLRDHUP | EPOLLOUT,
                         [self = shared_from_this()](uint32_t events) { self->on_events(events); });
}

void TcpConnection::watch() {
  std::lock_guard lock(watch_mutex_);
  if (watch_id_ == 0) return;
  loop_->modify(watch_id_, EPOLLRDHUP | (paused_.load() ? 0u : uint32_t{EPOLLIN}) |
                               (want_write_.load() ? uint32_t{EPOLLOUT} : 0u));
}

std::unique_ptr<PendingSend> TcpConnection::send(const Call& call, Pieces pieces) {
  call.check();
  auto out = std::make_shared<Outgoing>();
  out->generation = call.generation();
  out->operation = call.operation;
  size_t foreign = 0;
  std::vector<size_t> copied;
  for (const auto& piece : pieces) {
    out->total += piece.size();
    if (auto buffer = limits_.find_buffer(piece)) {
      if (out->keep.empty() || out->keep.back() != buffer) out->keep.push_back(std::move(buffer));
    } else {
      foreign += piece.size();
      copied.push_back(out->pieces.size());
    }
    out->pieces.push_back(piece);
  }
  if (pieces.size() > kMaxPieces) {
    fail(ErrorCode::kInvalidArgument, "a message of {} pieces, at most {} are possible",
         pieces.size(), kMaxPieces);
  }
  if (foreign > 0) {
    Landing copy = limits_.stage(foreign);
    std::byte* at = copy.get();
    for (const size_t i : copied) {
      if (!pieces[i].empty()) std::memcpy(at, pieces[i].data(), pieces[i].size());
      out->pieces[i] = {at, pieces[i].size()};
      at += pieces[i].size();
    }
    out->keep.push_back(std::move(copy));
  }
  call.state->bytes_sent += out->total;
  call.state->messages += 1;
  {
    std::lock_guard lock(out_mutex_);
    if (lost_.load()) call.throw_lost(why_);
    if (out->generation < pending_floor_) call.throw_ended("this worker left the generation");
    queue_.push_back(out);
    if (!want_write_.load()) write_frames();
  }
  return std::make_unique<TcpSend>(shared_from_this(), call, std::move(out));
}

void TcpConnection::prepare_floor_frame() {
  FrameHeader header{kFrameMagic, static_cast<uint16_t>(FrameKind::kFloor)};
  header.generation = sent_floor_ = pending_floor_;
  frame_head_.resize(sizeof(header));
  std::memcpy(frame_head_.data(), &header, sizeof(header));
  frame_.push_back({frame_head_.data(), frame_head_.size()});
}

void TcpConnection::prepare_data_frame(Outgoing& out) {
  FrameHeader header{kFrameMagic,
                     static_cast<uint16_t>(FrameKind::kData),
                     !out.begun,
                     out.generation,
                     out.operation,
                     out.total,
                     out.framed,
                     0,
                     static_cast<uint32_t>(out.pieces.size())};
  const size_t table = out.begun ? 0 : out.pieces.size() * sizeof(uint64_t);
  frame_head_.resize(sizeof(header) + table);
  frame_.push_back({frame_head_.data(), frame_head_.size()});
  for (size_t i = 0; i < table / sizeof(uint64_t); ++i) {
    const uint64_t size = out.pieces[i].size();
    std::memcpy(frame_head_.data() + sizeof(header) + i * sizeof(size), &size, sizeof(size));
  }
  size_t room = kFrameBytes - frame_head_.size();
  while (room > 0 && out.piece < out.pieces.size() && frame_.size() < kFramePieces) {
    const auto rest = out.pieces[out.piece].subspan(out.in_piece);
    const size_t take = std::min(rest.size(), room);
    if (take > 0) frame_.push_back({const_cast<std::byte*>(rest.data()), take});
    room -= take;
    header.length += static_cast<uint32_t>(take);
    out.in_piece += take;
    if (take == rest.size()) {
      ++out.piece;
      out.in_piece = 0;
    }
  }
  out.begun = true;
  out.framed += header.length;
  std::memcpy(frame_head_.data(), &header, sizeof(header));
}

bool TcpConnection::prepare_frame() {
  if (!frame_.empty()) return true;
  frame_started_ = false;
  if (pending_floor_ > sent_floor_) {
    current_ = nullptr;
    prepare_floor_frame();
  } else if (!queue_.empty()) {
    current_ = queue_.front();
    prepare_data_frame(*current_);
  }
  return !frame_.empty();
}

void TcpConnection::finish_frame() {
  frame_.clear();
  if (!current_ || current_->framed < current_->total) return;
  current_->progress = Progress::kTaken;
  current_->keep.clear();
  queue_.pop_front();
  current_ = nullptr;
  out_wake_.notify_all();
}

void TcpConnection::write_frames() {
  while (!lost_.load() && !broken_.load() && prepare_frame()) {
    const auto sent = runtime::send_pieces(socket_.get(), frame_);
    if (!sent) {
      // The loop's thread ends the connection, after it has read what the peer still sent.
      want_write_.store(false);
      broken_.store(true);
      loop_->post([self = shared_from_this()] { self->on_events(EPOLLHUP); });
      return;
    }
    if (*sent == 0) {
      if (!want_write_.exchange(true)) watch();
      return;
    }
    frame_started_ = true;
    size_t left = *sent;
    size_t done = 0;
    while (done < frame_.size() && left >= frame_[done].iov_len) left -= frame_[done++].iov_len;
    frame_.erase(frame_.begin(), frame_.begin() + static_cast<std::ptrdiff_t>(done));
    if (!frame_.empty()) {
      frame_[0].iov_base = static_cast<std::byte*>(frame_[0].iov_base) + left;
      frame_[0].iov_len -= left;
    } else {
      finish_frame();
    }
  }
  if (want_write_.exchange(false)) watch();
}

void TcpConnection::wait_taken(const Call& call, Outgoing& outgoing) {
  const auto deadline = call.state->deadline();
  std::unique_lock lock(out_mutex_);
  while (outgoing.progress != Progress::kTaken) {
    if (outgoing.progress == Progress::kDropped)
      call.throw_ended("this worker left the generation");
    if (lost_.load()) call.throw_lost(why_);
    if (out_wake_.wait_until(lock, deadline) == std::cv_status::timeout &&
        outgoing.progress == Progress::kQueued && Clock::now() >= deadline) {
      call.throw_timeout("sending");
    }
  }
  call.check();
}

void TcpConnection::drop_frame_in_flight() {
  if (!frame_started_) {
    frame_.clear();
  } else {
    // The peer needs the rest of the frame to find the next one; the pieces are no longer ours.
    std::vector<std::byte> rest;
    for (const iovec& part : frame_) {
      const auto* data = static_cast<const std::byte*>(part.iov_base);
      rest.insert(rest.end(), data, data + part.iov_len);
    }
    frame_copy_ = std::move(rest);
    frame_.assign(1, {frame_copy_.data(), frame_copy_.size()});
  }
  current_ = nullptr;
}

void TcpConnection::drop_below(uint64_t floor) {
  {
    std::lock_guard lock(out_mutex_);
    pending_floor_ = std::max(pending_floor_, floor);
    if (current_ && !frame_.empty() && current_->generation < floor) drop_frame_in_flight();
    std::erase_if(queue_, [floor](const std::shared_ptr<Outgoing>& out) {
      if (out->generation >= floor) return false;
      out->progress = Progress::kDropped;
      out->keep.clear();
      return true;
    });
    if (!want_write_.load()) write_frames();
    out_wake_.notify_all();
  }
  std::lock_guard lock(in_mutex_);
  floor_ = std::max(floor_, floor);
  for (auto it = arrivals_.begin(); it != arrivals_.end() && it->first.first < floor_;) {
    held_bytes_ -= it->second.bytes;
    it = arrivals_.erase(it);
  }
  resume_if_paused();
}

void TcpConnection::wake() {
  { std::lock_guard lock(out_mutex_); }
  out_wake_.notify_all();
  { std::lock_guard lock(in_mutex_); }
  in_wake_.notify_all();
}

void TcpConnection::close(const std::string& why) {
  {
    std::scoped_lock lock(out_mutex_, in_mutex_);
    if (lost_.load()) return;
    why_ = why;
    lost_.store(true);
    queue_.clear();
    frame_.clear();
    current_ = nullptr;
    ::shutdown(socket_.get(), SHUT_RDWR);
  }
  {
    std::lock_guard lock(watch_mutex_);
    if (watch_id_ != 0) loop_->remove(watch_id_);
    watch_id_ = 0;
  }
  wake();
}

}  // namespace craton::comm
