#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "craton/app/grpc/byte_buffer.h"
#include "craton/control/rpc.h"

namespace craton::app {

/// What a stream of gRPC (a reactor, on the server's or the client's side) and the stream that a
/// user of control/rpc.h holds have in common: two queues and who may still be asked for what.
/// Either of the two may go first.
class StreamState {
 public:
  /// The calls of a reactor that this starts, one of each at a time, none after `detach`.
  struct Operations {
    std::function<void(grpc::ByteBuffer*)> read;
    std::function<void(const grpc::ByteBuffer*)> write;
    std::function<void()> end;
  };

  StreamState(Operations operations, std::function<void()> wake)
      : operations_(std::move(operations)), wake_(std::move(wake)) {}

  void begin_reading() {
    std::lock_guard lock(mutex_);
    read_next();
  }

  // The reactor's side. Each returns true once: when the reactor has to let go of the call.

  bool on_read(bool ok) {
    {
      std::lock_guard lock(mutex_);
      reading_ = false;
      if (ok && !ended_) {
        received_.push_back(to_text(in_));
        read_next();
      }
    }
    const bool last = !ok && end();
    wake_();
    return last;
  }
  bool on_write(bool ok) {
    if (!ok) {
      const bool last = end();
      wake_();
      return last;
    }
    std::lock_guard lock(mutex_);
    waiting_bytes_ -= waiting_.front().Length();
    waiting_.pop_front();
    writing_ = false;
    write_next();
    return false;
  }
  /// The connection is gone.
  bool on_lost() {
    const bool last = end();
    wake_();
    return last;
  }

  // The user's side.

  void send(const std::string& message) {
    std::lock_guard lock(mutex_);
    if (ended_) return;
    waiting_.push_back(to_buffer(message));
    waiting_bytes_ += waiting_.back().Length();
    if (waiting_bytes_ > control::RpcStream::kMostWaiting) {
      operations_.end();
      return;
    }
    write_next();
  }
  std::optional<std::string> receive() {
    std::lock_guard lock(mutex_);
    if (received_.empty()) return std::nullopt;
    std::string message = std::move(received_.front());
    received_.pop_front();
    read_next();
    return message;
  }
  bool ended() {
    std::lock_guard lock(mutex_);
    return ended_ && received_.empty();
  }
  /// The user has let go.
  void close() {
    std::lock_guard lock(mutex_);
    if (ended_) return;
    operations_.end();
    received_.clear();
    read_next();  // so that there is something to fail
  }
  /// gRPC has let go, and asks for nothing any more.
  void on_done() {
    std::lock_guard lock(mutex_);
    done_ = true;
    is_done_.notify_all();
  }
  void await_done() {
    std::unique_lock lock(mutex_);
    is_done_.wait(lock, [&] { return done_; });
  }

 private:
  bool end() {
    std::lock_guard lock(mutex_);
    return !std::exchange(ended_, true);
  }
  void read_next() {
    if (ended_ || reading_ || received_.size() >= control::RpcStream::kMostReceived) return;
    reading_ = true;
    operations_.read(&in_);
  }
  void write_next() {
    if (ended_ || writing_ || waiting_.empty()) return;
    writing_ = true;
    operations_.write(&waiting_.front());
  }

  const Operations operations_;
  const std::function<void()> wake_;
  std::mutex mutex_;
  grpc::ByteBuffer in_;
  std::deque<grpc::ByteBuffer> waiting_;
  std::deque<std::string> received_;
  size_t waiting_bytes_ = 0;
  bool reading_ = false, writing_ = false, ended_ = false, done_ = false;
  std::condition_variable is_done_;
};

class Stream : public control::RpcStream {
 public:
  explicit Stream(std::shared_ptr<StreamState> state) : state_(std::move(state)) {}
  ~Stream() override { state_->close(); }
  void send(const std::string& message) override { state_->send(message); }
  std::optional<std::string> receive() override { return state_->receive(); }
  bool ended() const override { return state_->ended(); }

 private:
  const std::shared_ptr<StreamState> state_;
};

/// The caller's end: nothing of the call is left once it is destroyed. `channel` is let go of here,
/// on the caller's thread: on one of gRPC's own, its end would wait for that thread itself.
class CallersStream : public Stream {
 public:
  CallersStream(std::shared_ptr<StreamState> state, std::shared_ptr<void> channel)
      : Stream(state), channel_(std::move(channel)), state_(std::move(state)) {}
  ~CallersStream() override {
    state_->close();
    state_->await_done();
  }

 private:
  const std::shared_ptr<void> channel_;
  const std::shared_ptr<StreamState> state_;
};

}  // namespace craton::app
