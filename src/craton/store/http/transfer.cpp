#include "craton/store/http/transfer.h"

namespace craton::store::http {

Fault judge(TransferTimes& times, const Limits& limits, Clock::time_point deadline,
            Clock::time_point now) {
  if (now >= deadline) return Fault::kDeadline;
  if (!times.is_connected)
    return now - times.started >= limits.connect ? Fault::kConnect : Fault::kNone;
  if (times.is_sent && !times.has_answer)
    return now - times.sent >= limits.first_byte ? Fault::kFirstByte : Fault::kNone;
  if (times.moved - times.moved_at_mark >= limits.stall_bytes) {
    times.moved_at_mark = times.moved;
    times.last_mark = now;
    return Fault::kNone;
  }
  return now - times.last_mark >= limits.stall ? Fault::kStalled : Fault::kNone;
}

}  // namespace craton::store::http
