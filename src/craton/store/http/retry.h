#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "craton/store/environment.h"

namespace craton::store::http {

using Clock = std::chrono::steady_clock;

/// How long a request may wait, and how often it is tried. Every wait has an end.
struct Limits {
  std::chrono::milliseconds connect{5'000};  ///< until the connection stands, TLS included
  std::chrono::milliseconds first_byte{
      20'000};                              ///< from the request's last byte to the answer's first
  std::chrono::milliseconds stall{15'000};  ///< in which at least `stall_bytes` must move
  uint64_t stall_bytes = 4096;
  std::chrono::milliseconds overall{180'000};  ///< of one call with all its attempts, for 64 MiB
  int attempts = 8;                            ///< in a row that gain no byte
  std::chrono::milliseconds backoff_base{100}, backoff_cap{10'000};
  size_t part_bytes = 8 << 20;  ///< a larger read is cut into parallel ranges of this size
};

/// The defaults, with CRATON_STORE_CONNECT_SECONDS, _FIRST_BYTE_SECONDS, _STALL_SECONDS,
/// _DEADLINE_SECONDS and CRATON_STORE_ATTEMPTS where they are set.
Limits limits_from(const Environment& environment);

/// What became of one attempt.
enum class Fault {
  kNone,         ///< an answer with a status
  kResolve,      ///< the host name has no address
  kConnect,      ///< refused, unreachable, or the connect deadline passed
  kTls,          ///< the certificate or the handshake
  kFirstByte,    ///< no answer within the first-byte deadline
  kStalled,      ///< too few bytes for too long
  kDeadline,     ///< the call's own deadline
  kCut,          ///< the connection ended early
  kWrongAnswer,  ///< an answer that contradicts the request: range, length, protocol
  kChanged,      ///< the object is another one than at the start of this read
  kCancelled,
};
std::string_view to_string(Fault fault);

struct Outcome {
  Fault fault = Fault::kNone;
  int status = 0;
  std::string code;  ///< the service's own, e.g. "SlowDown"
  std::optional<std::chrono::milliseconds> retry_after;
  bool progressed = false;  ///< bytes were gained that need not be read again
  bool is_final = false;    ///< no later answer can serve this call
};

/// The server asks for fewer requests.
bool asks_to_slow_down(const Outcome& outcome);
/// The credentials have passed their time: worth one refresh.
bool credentials_expired(const Outcome& outcome);
/// The same request may succeed later.
bool is_transient(const Outcome& outcome);

/// "120" or an HTTP date (RFC 9110, 10.2.3), relative to `now`; never negative.
std::optional<std::chrono::milliseconds> parse_retry_after(
    std::string_view text, std::chrono::system_clock::time_point now);

/// The attempts of one call. Waits grow exponentially with full jitter: uniform in [0, min(cap,
/// base * 2^n)] ("Exponential backoff and jitter", AWS architecture blog, 2015), but at least
/// Retry-After. Attempts that gain bytes start the count again: a long read over a bad line ends
/// by its deadline, not by its number of cuts.
class Retries {
 public:
  Retries(const Limits& limits, Clock::time_point start, uint64_t bytes);

  /// The wait before the next attempt; nullopt to give up. `random` is any 64-bit number.
  std::optional<std::chrono::milliseconds> next(const Outcome& outcome, Clock::time_point now,
                                                uint64_t random);
  Clock::time_point deadline() const { return deadline_; }
  int attempts() const { return attempts_; }

 private:
  Limits limits_;
  Clock::time_point deadline_;
  int attempts_ = 0, fruitless_ = 0;
};

}  // namespace craton::store::http
