#pragma once

#include <curl/curl.h>

#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "craton/store/http/transfer.h"

namespace craton::store::http {

class Dispatcher;

/// One thread with one libcurl multi handle: its transfers, its idle handles and its connections.
class Reactor {
 public:
  explicit Reactor(Dispatcher& dispatcher);
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;
  /// Waits for what is in flight.
  ~Reactor();

  void start(Transfer& transfer);
  void wake();

 private:
  struct Active;
  struct EasyDeleter {
    void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
  };
  using Easy = std::unique_ptr<CURL, EasyDeleter>;

  void run();
  void take_new();
  void begin(Transfer& transfer);
  void collect();
  void judge_all();
  void end(CURL* easy, Fault fault, const std::string& detail);
  void report(Transfer& transfer);

  Dispatcher& dispatcher_;
  CURLM* multi_;
  std::mutex mutex_;
  std::vector<Transfer*> new_;
  bool stop_ = false;
  std::map<CURL*, std::unique_ptr<Active>> active_;
  std::vector<Easy> idle_;
  std::thread thread_;
};

}  // namespace craton::store::http
