#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "craton/store/http/body_reader.h"
#include "craton/store/http/message.h"
#include "craton/store/http/retry.h"

namespace craton::store::http {

/// When what happened in one attempt; what the deadlines are judged by.
struct TransferTimes {
  Clock::time_point started, connected, sent, first_byte, last_mark;
  bool is_connected = false, is_sent = false, has_answer = false;
  uint64_t moved = 0;          ///< bytes in both directions
  uint64_t moved_at_mark = 0;  ///< at `last_mark`, from which the stall deadline counts
};

/// The fault that a waiting attempt has come to, kNone while it may go on. Moves the mark on when
/// enough has moved since. Pure.
Fault judge(TransferTimes& times, const Limits& limits, Clock::time_point deadline,
            Clock::time_point now);

/// One attempt of one request. The owner keeps it, the request's body and the sink alive until
/// `done` has been called.
struct Transfer {
  Request request;
  Sink* sink = nullptr;  ///< for bodies of 2xx answers; without one they become text
  Limits limits;
  Clock::time_point deadline;
  uint64_t expected_bytes = 0;    ///< of the body in either direction, for the budget
  bool fresh_connection = false;  ///< resolve and connect anew
  bool no_proxy = false;
  std::atomic<bool> cancelled{false};

  Response response;
  Fault fault = Fault::kNone;
  std::string detail;  ///< of a fault, for people
  TransferTimes times;
  bool repeated =
      false;  ///< the body was sent again on another connection: the first may have arrived
  /// Called once, on a reactor thread, as the last use of this object there.
  std::function<void()> done;
};

}  // namespace craton::store::http
