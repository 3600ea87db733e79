#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "craton/base/error.h"
#include "craton/store/http/body_reader.h"
#include "craton/store/http/dispatcher.h"
#include "craton/store/http/message.h"
#include "craton/store/http/retry.h"

namespace craton::store::http {

/// What a service says about a failure: "SlowDown", "Reduce your request rate.".
struct ServiceError {
  std::string code, message;
};

/// What differs between a plain web server and S3. Called on callers' threads, several at a time.
class Service {
 public:
  virtual ~Service() = default;
  /// Completes a request for one attempt: host, address, signature. `request.url` has the path and
  /// query below the service's root; `elsewhere` is where an answer has redirected it. May block
  /// for credentials.
  virtual void prepare(Request& request, const std::optional<Url>& elsewhere) = 0;
  virtual ServiceError explain(const Response& response);
  /// Takes from a failed answer what makes the same request succeed: fresh credentials, the region,
  /// the clock. True when something has changed.
  virtual bool learn(const Request& sent, const Response& response, const ServiceError& error);
  /// Facts for error messages; never credentials.
  virtual std::vector<std::pair<std::string, std::string>> facts() const { return {}; }
  virtual bool no_proxy() const { return false; }
};

/// One request from the caller's view, with all its attempts.
struct Call {
  Request request;
  BodyReader* reader = nullptr;   ///< of a read
  std::string what;               ///< "cannot read s3://b/k"
  std::vector<int> also_answers;  ///< statuses that are no failure: 304, 404, 412, 416
  bool may_change = false;        ///< another version than the reader's is no failure

  Response response;       ///< the last answer
  bool past_end = false;   ///< the object ends before the range
  bool changed = false;    ///< the reader's version is gone
  bool ambiguous = false;  ///< an earlier sending of the request may have taken effect
  int attempts = 0;
};

/// Runs calls until they have an answer or have failed for good: retries, deadlines, redirects,
/// the rest of a half-read range. Blocks the caller, who sleeps between the attempts; threads of
/// its own it has none. Thread-safe.
class Client {
 public:
  Client(std::shared_ptr<Service> service, const Limits& limits);

  void run(Call& call) { run_all({&call, 1}, 1); }
  /// At most `parallel` at a time, in order. The first failure cancels the others and is thrown.
  void run_all(std::span<Call> calls, size_t parallel);

  /// Gives the call `index` when a slot (0 to parallel - 1) is free for it; it stays the caller's.
  using StartCall = std::function<Call&(size_t index, size_t slot)>;
  /// Is told that it has its answer; the others go on meanwhile.
  using EndCall = std::function<void(size_t index, size_t slot)>;
  /// As `run_all`, for calls that are made when their turn comes. Both functions run on the
  /// caller's thread; calls start in order and end in any.
  void run_each(size_t count, size_t parallel, const StartCall& next, const EndCall& ended);

  const Limits& limits() const { return limits_; }
  TrafficCounters counters() { return dispatcher()->counters(); }

 private:
  class Batch;
  std::shared_ptr<Dispatcher> dispatcher();

  std::shared_ptr<Service> service_;
  Limits limits_;
  std::mutex mutex_;
  std::shared_ptr<Dispatcher> dispatcher_;
};

/// The scheme, host and path of a Location header, which may be relative to `from`. nullopt for
/// what is no such place, and for a step from https down to http.
std::optional<Url> resolve_redirect(const Url& from, std::string_view location);

}  // namespace craton::store::http
