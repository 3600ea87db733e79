#include "craton/store/http/retry.h"

#include <algorithm>
#include <array>

#include "craton/base/error.h"
#include "craton/store/http/message.h"

namespace craton::store::http {

using std::chrono::milliseconds;

std::string_view to_string(Fault fault) {
  switch (fault) {
    case Fault::kNone:
      return "an answer";
    case Fault::kResolve:
      return "the host name could not be resolved";
    case Fault::kConnect:
      return "no connection";
    case Fault::kTls:
      return "no secure connection";
    case Fault::kFirstByte:
      return "no answer in time";
    case Fault::kStalled:
      return "the transfer stalled";
    case Fault::kDeadline:
      return "the deadline passed";
    case Fault::kCut:
      return "the connection ended early";
    case Fault::kWrongAnswer:
      return "a wrong answer";
    case Fault::kChanged:
      return "the object changed while it was read";
    case Fault::kCancelled:
      return "cancelled";
  }
  return "unknown";
}

bool asks_to_slow_down(const Outcome& outcome) {
  if (outcome.fault != Fault::kNone) return false;
  return outcome.status == 503 || outcome.status == 429 || outcome.code == "SlowDown" ||
         outcome.code == "RequestLimitExceeded" || outcome.code == "Throttling";
}

bool credentials_expired(const Outcome& outcome) {
  static constexpr std::array<std::string_view, 4> kCodes = {
      "ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "RequestExpired"};
  return outcome.fault == Fault::kNone && std::ranges::find(kCodes, outcome.code) != kCodes.end();
}

bool is_transient(const Outcome& outcome) {
  if (outcome.is_final) return false;
  switch (outcome.fault) {
    case Fault::kNone:
      break;
    case Fault::kTls:
    case Fault::kDeadline:
    case Fault::kCancelled:
      return false;
    default:
      return true;
  }
  if (asks_to_slow_down(outcome)) return true;
  static constexpr std::array<std::string_view, 5> kCodes = {
      "RequestTimeout", "InternalError", "OperationAborted", "ConditionalRequestConflict",
      "BadDigest"};
  if (std::ranges::find(kCodes, outcome.code) != kCodes.end()) return true;
  return outcome.status == 408 || outcome.status == 500 || outcome.status == 502 ||
         outcome.status == 504 || outcome.status == 509;
}

std::optional<milliseconds> parse_retry_after(std::string_view text,
                                              std::chrono::system_clock::time_point now) {
  constexpr uint64_t kDay = 86400;
  if (const auto seconds = parse_number(text)) return milliseconds(std::min(*seconds, kDay) * 1000);
  const auto then = parse_http_date(text);
  if (!then) return std::nullopt;
  return std::clamp(std::chrono::duration_cast<milliseconds>(*then - now), milliseconds(0),
                    milliseconds(kDay * 1000));
}

Limits limits_from(const Environment& environment) {
  Limits limits;
  const auto seconds = [&](const char* name, milliseconds& limit) {
    const auto text = environment(name);
    if (!text) return;
    const auto value = parse_number(*text);
    if (!value || *value == 0 || *value > 86400)
      fail(ErrorCode::kInvalidArgument, "{}={}: expected seconds, from 1 to 86400", name, *text);
    limit = std::chrono::seconds(*value);
  };
  seconds("CRATON_STORE_CONNECT_SECONDS", limits.connect);
  seconds("CRATON_STORE_FIRST_BYTE_SECONDS", limits.first_byte);
  seconds("CRATON_STORE_STALL_SECONDS", limits.stall);
  seconds("CRATON_STORE_DEADLINE_SECONDS", limits.overall);
  if (const auto text = environment("CRATON_STORE_ATTEMPTS")) {
    const auto value = parse_number(*text);
    if (!value || *value == 0 || *value > 100)
      fail(ErrorCode::kInvalidArgument, "CRATON_STORE_ATTEMPTS={}: expected 1 to 100", *text);
    limits.attempts = static_cast<int>(*value);
  }
  return limits;
}

Retries::Retries(const Limits& limits, Clock::time_point start, uint64_t bytes) : limits_(limits) {
  // A large body gets more time, at the rate that `overall` grants to 64 MiB.
  const double share = std::clamp(static_cast<double>(bytes) / (64 << 20), 1.0, 1000.0);
  deadline_ = start + std::chrono::duration_cast<Clock::duration>(limits.overall * share);
}

std::optional<milliseconds> Retries::next(const Outcome& outcome, Clock::time_point now,
                                          uint64_t random) {
  ++attempts_;
  fruitless_ = outcome.progressed ? 0 : fruitless_ + 1;
  if (!is_transient(outcome) || fruitless_ >= limits_.attempts) return std::nullopt;
  const int doublings = std::clamp(fruitless_ - 1, 0, 20);
  const auto ceiling =
      std::min<int64_t>(limits_.backoff_cap.count(), limits_.backoff_base.count() << doublings);
  milliseconds wait(static_cast<int64_t>(random % static_cast<uint64_t>(ceiling + 1)));
  if (outcome.retry_after) wait = std::max(wait, *outcome.retry_after);
  if (now + wait >= deadline_) return std::nullopt;
  return wait;
}

}  // namespace craton::store::http
