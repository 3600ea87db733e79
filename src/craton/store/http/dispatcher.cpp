#include "craton/store/http/dispatcher.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <tuple>

#include "craton/base/error.h"
#include "craton/base/units.h"
#include "craton/runtime/thread_pool.h"
#include "craton/store/http/reactor.h"

namespace craton::store::http {

namespace {

constexpr double kFirstLatency = 20e-6, kLatencyStep = 1.15;

size_t bucket_of(double seconds) {
  const double b = std::ceil(std::log(std::max(seconds, kFirstLatency) / kFirstLatency) /
                             std::log(kLatencyStep));
  return std::min(static_cast<size_t>(b),
                  std::tuple_size_v<decltype(TrafficCounters::latencies)> - 1);
}

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

size_t count_from(const char* name, size_t otherwise, size_t most) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return otherwise;
  const auto value = parse_number(text);
  if (!value || *value == 0 || *value > most)
    fail(ErrorCode::kInvalidArgument, "{}={}: expected a number from 1 to {}", name, text, most);
  return static_cast<size_t>(*value);
}

std::shared_ptr<Dispatcher> make_shared_dispatcher() {
  BudgetLimits limits;
  limits.most_requests = count_from("CRATON_STORE_REQUESTS", limits.most_requests, 4096);
  limits.least_requests = std::min(limits.least_requests, limits.most_requests);
  if (const char* text = std::getenv("CRATON_STORE_BYTES"); text != nullptr && *text != '\0')
    limits.bytes = parse_bytes(text);
  const size_t threads =
      count_from("CRATON_STORE_THREADS", std::min<size_t>(4, runtime::available_cores()), 64);
  return std::make_shared<Dispatcher>(limits, threads);
}

}  // namespace

std::shared_ptr<Dispatcher> Dispatcher::shared() {
  static auto* mutex = new std::mutex();
  static auto* current = new std::weak_ptr<Dispatcher>();
  std::lock_guard lock(*mutex);
  auto dispatcher = current->lock();
  if (dispatcher && dispatcher->owner() != ::getpid()) {
    new std::shared_ptr<Dispatcher>(std::move(dispatcher));  // its threads cannot be joined here
    dispatcher = nullptr;
  }
  if (!dispatcher) {
    dispatcher = make_shared_dispatcher();
    *current = dispatcher;
  }
  return dispatcher;
}

Dispatcher::Dispatcher(const BudgetLimits& limits, size_t threads)
    : budget_(limits, Clock::now()), owner_(::getpid()) {
  static const CURLcode initialised = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (initialised != CURLE_OK) fail(ErrorCode::kInternal, "libcurl could not be initialised");
  for (size_t i = 0; i < threads; ++i) reactors_.push_back(std::make_unique<Reactor>(*this));
}

Dispatcher::~Dispatcher() = default;

void Dispatcher::submit(Transfer& transfer) {
  std::unique_lock lock(mutex_);
  waiting_.push_back(&transfer);
  pump(lock);
}

void Dispatcher::cancel(Transfer& transfer) {
  transfer.cancelled = true;
  bool was_waiting = false;
  {
    std::lock_guard lock(mutex_);
    was_waiting = std::erase(waiting_, &transfer) > 0;
  }
  if (!was_waiting) {
    for (auto& reactor : reactors_) reactor->wake();
    return;
  }
  transfer.fault = Fault::kCancelled;
  const auto done = std::move(transfer.done);
  done();
}

void Dispatcher::finished(Transfer& transfer) {
  std::unique_lock lock(mutex_);
  const bool slow = transfer.fault == Fault::kNone &&
                    (transfer.response.status == 503 || transfer.response.status == 429);
  budget_.finish(transfer.expected_bytes, transfer.times.moved, slow, Clock::now());
  ++counters_.requests;
  counters_.bytes += transfer.times.moved;
  counters_.slow_downs += slow;
  counters_.faults += transfer.fault != Fault::kNone;
  const TransferTimes& times = transfer.times;
  const auto now = Clock::now();
  if (times.started != Clock::time_point())
    ++counters_.latencies[bucket_of(seconds_between(times.started, now))];
  if (times.has_answer && times.sent != Clock::time_point()) {
    counters_.seconds_to_first_byte += seconds_between(times.sent, times.first_byte);
    counters_.seconds_of_bodies += seconds_between(times.first_byte, now);
  }
  pump(lock);
}

void Dispatcher::pump(std::unique_lock<std::mutex>& lock) {
  while (!waiting_.empty() && budget_.try_start(waiting_.front()->expected_bytes)) {
    Transfer& transfer = *waiting_.front();
    waiting_.pop_front();
    Reactor& reactor = *reactors_[next_++ % reactors_.size()];
    lock.unlock();
    reactor.start(transfer);
    lock.lock();
  }
}

void Dispatcher::count_retry() {
  std::lock_guard lock(mutex_);
  ++counters_.retries;
}

double TrafficCounters::latency_of(size_t bucket) {
  return kFirstLatency * std::pow(kLatencyStep, static_cast<double>(bucket));
}

double TrafficCounters::latency_quantile(double share) const {
  uint64_t total = 0, seen = 0;
  for (const uint64_t n : latencies) total += n;
  for (size_t b = 0; b < latencies.size(); ++b) {
    seen += latencies[b];
    if (seen > 0 && static_cast<double>(seen) >= share * static_cast<double>(total))
      return latency_of(b);
  }
  return 0;
}

TrafficCounters TrafficCounters::since(const TrafficCounters& before) const {
  TrafficCounters out = *this;
  out.requests -= before.requests;
  out.bytes -= before.bytes;
  out.slow_downs -= before.slow_downs;
  out.faults -= before.faults;
  out.retries -= before.retries;
  out.seconds_to_first_byte -= before.seconds_to_first_byte;
  out.seconds_of_bodies -= before.seconds_of_bodies;
  for (size_t b = 0; b < latencies.size(); ++b) out.latencies[b] -= before.latencies[b];
  return out;
}

TrafficCounters Dispatcher::counters() const {
  std::lock_guard lock(mutex_);
  TrafficCounters out = counters_;
  out.limit = budget_.limit();
  return out;
}

}  // namespace craton::store::http
