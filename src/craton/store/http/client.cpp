#include "craton/store/http/client.h"

#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <random>

#include "craton/base/log.h"
#include "craton/base/units.h"

namespace craton::store::http {

namespace {

constexpr int kMostLessons = 3;  ///< redirects, refreshes and corrections of one call

uint64_t random_bits() {
  thread_local std::mt19937_64 generator{std::random_device{}()};
  return generator();
}

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

std::string one_line(std::string_view text) {
  std::string out(text.substr(0, 200));
  std::ranges::replace_if(
      out, [](unsigned char c) { return c < ' ' || c == 0x7f; }, ' ');
  return out;
}

ErrorCode code_of(const Outcome& outcome) {
  switch (outcome.fault) {
    case Fault::kFirstByte:
    case Fault::kStalled:
    case Fault::kDeadline:
      return ErrorCode::kTimeout;
    case Fault::kCancelled:
      return ErrorCode::kCancelled;
    case Fault::kNone:
      break;
    default:
      return ErrorCode::kIo;
  }
  switch (outcome.status) {
    case 401:
    case 403:
      return ErrorCode::kPermission;
    case 404:
      return ErrorCode::kNotFound;
    case 416:
      return ErrorCode::kOutOfRange;
    default:
      return ErrorCode::kIo;
  }
}

}  // namespace

ServiceError Service::explain(const Response&) { return {}; }

bool Service::learn(const Request&, const Response&, const ServiceError&) { return false; }

std::optional<Url> resolve_redirect(const Url& from, std::string_view location) {
  if (location.empty()) return std::nullopt;
  try {
    std::string text(location);
    if (text.starts_with("//")) {
      text = from.scheme + ":" + text;
    } else if (text.starts_with("/")) {
      text = from.origin() + text;
    } else if (text.find("://") == text.npos) {
      text = from.origin() + from.path.substr(0, from.path.rfind('/') + 1) + text;
    }
    Url url = parse_url(text);
    if (from.scheme == "https" && url.scheme == "http") return std::nullopt;
    return url;
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// The calls of one `run_each`, driven by the caller's thread: `parallel` slots, each with one call
/// at a time.
class Client::Batch {
 public:
  Batch(Client& client, size_t count, size_t parallel, const StartCall& next, const EndCall& ended)
      : client_(client),
        dispatcher_(client.dispatcher()),
        count_(count),
        next_call_(next),
        ended_call_(ended) {
    for (size_t i = 0; i < std::min(count, parallel); ++i) slots_.emplace_back();
  }

  ~Batch() {
    for (Slot& slot : slots_)
      if (slot.state && slot.state->in_flight) dispatcher_->cancel(slot.state->transfer);
    std::unique_lock lock(board_->mutex);
    board_->wake.wait(lock, [&] { return board_->in_flight == 0; });
  }

  void run() {
    while (done_ < count_) {
      const auto next_due = start_due();
      for (const size_t slot : wait_until(next_due)) {
        settle(slot);
        start_due();  // the line stays busy while the next one is looked at
      }
    }
  }

 private:
  struct State {
    State(const Call& call, const Limits& limits)
        : retries(limits, Clock::now(), call.request.body.size() + expected(call)),
          due(Clock::now()) {}
    static uint64_t expected(const Call& call) {
      return call.reader != nullptr ? call.reader->expected() : 4096;
    }
    Transfer transfer;
    Retries retries;
    Clock::time_point due;
    std::optional<Url> elsewhere;
    uint64_t received_before = 0;
    int lessons = 0;
    bool in_flight = false;
  };
  struct Slot {
    size_t index = 0;
    Call* call = nullptr;
    std::optional<State> state;
  };
  /// Shared with the reactors, which may outlive the batch by an instant.
  struct Board {
    std::mutex mutex;
    std::condition_variable wake;
    std::deque<size_t> ended;
    size_t in_flight = 0;
  };

  /// Starts what is due; the time at which the next one is.
  Clock::time_point start_due() {
    auto next = Clock::time_point::max();
    for (size_t i = 0; i < slots_.size(); ++i) {
      Slot& slot = slots_[i];
      if (slot.call == nullptr) {
        if (begun_ == count_) continue;
        slot.index = begun_++;
        slot.call = &next_call_(slot.index, i);
        slot.state.emplace(*slot.call, client_.limits_);
      }
      if (slot.state->in_flight) continue;
      if (slot.state->due <= Clock::now()) {
        start(i);
      } else {
        next = std::min(next, slot.state->due);
      }
    }
    return next;
  }

  void start(size_t i) {
    State& state = *slots_[i].state;
    Call& call = *slots_[i].call;
    Transfer& transfer = state.transfer;
    transfer.request = call.request;
    if (call.reader != nullptr) {
      call.reader->add_headers(transfer.request.headers);
      state.received_before = call.reader->received();
    }
    client_.service_->prepare(transfer.request, state.elsewhere);
    transfer.sink = call.reader;
    transfer.limits = client_.limits_;
    transfer.deadline = state.retries.deadline();
    transfer.expected_bytes = call.request.body.size() + State::expected(call);
    transfer.no_proxy = client_.service_->no_proxy();
    transfer.done = [board = board_, i] {
      std::lock_guard lock(board->mutex);
      board->ended.push_back(i);
      --board->in_flight;
      board->wake.notify_all();
    };
    ++call.attempts;
    state.in_flight = true;
    {
      std::lock_guard lock(board_->mutex);
      ++board_->in_flight;
    }
    dispatcher_->submit(transfer);
  }

  std::deque<size_t> wait_until(Clock::time_point due) {
    std::unique_lock lock(board_->mutex);
    const auto ready = [&] { return !board_->ended.empty(); };
    if (due == Clock::time_point::max()) {
      board_->wake.wait(lock, ready);
    } else {
      board_->wake.wait_until(lock, due, ready);
    }
    return std::exchange(board_->ended, {});
  }

  void settle(size_t i) {
    State& state = *slots_[i].state;
    Call& call = *slots_[i].call;
    state.in_flight = false;
    call.ambiguous |= state.transfer.repeated;
    call.response = std::move(state.transfer.response);
    Outcome outcome = judge_answer(state, call);
    if (outcome.fault == Fault::kNone && is_answer(call)) return finish(slots_[i], i);
    if (call.reader != nullptr && call.reader->past_end()) {
      call.past_end = true;
      return finish(slots_[i], i);
    }
    if (call.may_change && outcome.fault == Fault::kChanged && outcome.is_final) {
      call.changed = true;
      return finish(slots_[i], i);
    }
    const ServiceError error =
        outcome.fault == Fault::kNone ? client_.service_->explain(call.response) : ServiceError();
    outcome.code = error.code;
    if (outcome.fault == Fault::kNone && learn(state, call, error)) {
      state.due = Clock::now();
      return;
    }
    const auto wait = state.retries.next(outcome, Clock::now(), random_bits());
    if (!wait) give_up(state, call, outcome, error);
    if (outcome.fault != Fault::kNone || call.response.status >= 500) call.ambiguous = true;
    log_debug("{}: {}, attempt {}, again in {} ms", call.what, reason(state, call, outcome, error),
              call.attempts, wait->count());
    dispatcher_->count_retry();
    state.transfer.fresh_connection = outcome.fault != Fault::kNone;
    state.due = Clock::now() + *wait;
  }

  void finish(Slot& slot, size_t i) {
    slot.call = nullptr;
    ++done_;
    ended_call_(slot.index, i);
  }

  static bool is_answer(const Call& call) {
    return call.response.status / 100 == 2 ||
           std::ranges::find(call.also_answers, call.response.status) != call.also_answers.end();
  }

  static Outcome judge_answer(const State& state, Call& call) {
    Outcome outcome;
    outcome.fault = state.transfer.fault;
    outcome.status = call.response.status;
    outcome.retry_after = parse_retry_after(call.response.headers.get("retry-after"),
                                            std::chrono::system_clock::now());
    BodyReader* reader = call.reader;
    if (reader == nullptr) return outcome;
    if (outcome.fault == Fault::kNone && outcome.status / 100 == 2 && !reader->complete())
      outcome.fault = Fault::kCut;
    // If-Match of a resumed read fails: another object lies there now.
    if (outcome.fault == Fault::kNone && outcome.status == 412) outcome.fault = Fault::kChanged;
    // The rest of a half-read object lies past its end: the first answer announced too much.
    if (outcome.fault == Fault::kNone && outcome.status == 416 && reader->received() > 0)
      outcome.fault = Fault::kWrongAnswer;
    outcome.progressed = reader->received() > state.received_before;
    if (outcome.fault == Fault::kChanged || outcome.fault == Fault::kWrongAnswer) {
      outcome.progressed = false;
      outcome.is_final = !reader->restart() && outcome.fault == Fault::kChanged;
    }
    return outcome;
  }

  bool learn(State& state, Call& call, const ServiceError& error) {
    if (state.lessons >= kMostLessons) return false;
    ++state.lessons;
    const Request& sent = state.transfer.request;
    if (client_.service_->learn(sent, call.response, error)) {
      state.elsewhere.reset();
      return true;
    }
    if (!is_redirect(call.response.status)) return false;
    const auto place = resolve_redirect(sent.url, call.response.headers.get("location"));
    if (!place) return false;
    state.elsewhere = place;
    return true;
  }

  static std::string reason(const State& state, const Call& call, const Outcome& outcome,
                            const ServiceError& error) {
    if (call.reader != nullptr && !call.reader->complaint().empty())
      return one_line(fmt::format("the server sent {}", call.reader->complaint()));
    if (outcome.fault != Fault::kNone) {
      std::string text(to_string(outcome.fault));
      if (!state.transfer.detail.empty()) text += ": " + state.transfer.detail;
      return one_line(text);
    }
    std::string text = fmt::format("the server answered {}", call.response.status);
    if (!error.code.empty()) text += " " + error.code;
    if (!error.message.empty()) text += ": " + error.message;
    if (is_redirect(call.response.status)) text += ", a redirect that leads nowhere";
    return one_line(text);
  }

  [[noreturn]] void give_up(const State& state, const Call& call, const Outcome& outcome,
                            const ServiceError& error) {
    Error out(code_of(outcome), call.what + ": " + reason(state, call, outcome, error),
              is_transient(outcome) ? Reaction::kRetry : Reaction::kAbort);
    if (call.reader != nullptr && !call.reader->describe().empty())
      out.with("bytes", call.reader->describe());
    out.with("attempts", std::to_string(call.attempts));
    if (call.response.status != 0) out.with("status", std::to_string(call.response.status));
    for (const auto& [name, value] : client_.service_->facts()) out.with(name, value);
    if (const auto id = call.response.headers.get("x-amz-request-id"); !id.empty())
      out.with("request", one_line(id));
    throw out;
  }

  Client& client_;
  std::shared_ptr<Dispatcher> dispatcher_;
  size_t count_, begun_ = 0, done_ = 0;
  const StartCall& next_call_;
  const EndCall& ended_call_;
  std::deque<Slot> slots_;
  std::shared_ptr<Board> board_ = std::make_shared<Board>();
};

Client::Client(std::shared_ptr<Service> service, const Limits& limits)
    : service_(std::move(service)), limits_(limits) {}

std::shared_ptr<Dispatcher> Client::dispatcher() {
  std::lock_guard lock(mutex_);
  if (!dispatcher_ || dispatcher_->owner() != ::getpid()) {
    auto fresh = Dispatcher::shared();
    if (dispatcher_) new std::shared_ptr<Dispatcher>(std::move(dispatcher_));  // the parent's
    dispatcher_ = std::move(fresh);
  }
  return dispatcher_;
}

void Client::run_all(std::span<Call> calls, size_t parallel) {
  run_each(
      calls.size(), parallel, [&](size_t index, size_t) -> Call& { return calls[index]; },
      [](size_t, size_t) {});
}

void Client::run_each(size_t count, size_t parallel, const StartCall& next, const EndCall& ended) {
  Batch(*this, count, std::max<size_t>(1, parallel), next, ended).run();
}

}  // namespace craton::store::http
