#pragma once

#include <poll.h>

#include <cstring>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "craton/runtime/file.h"
#include "craton/runtime/socket.h"
#include "craton/runtime/stop_signal.h"
#include "craton/store/http/message.h"

namespace craton::testing {

/// What the server was asked.
struct HttpRequest {
  std::string method, target;  ///< `target`: path and query as sent
  store::http::Headers headers;
  std::string body;
};

/// What it answers, and what goes wrong on the way.
struct HttpAnswer {
  int status = 200;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  std::optional<uint64_t> announced;  ///< a Content-Length of its own
  std::optional<size_t> cut_after;    ///< closes the connection after so many bytes of the body
  std::optional<size_t> stall_after;  ///< sends nothing more after so many bytes of the body
  bool silent = false;                ///< never answers
  bool close_at_once = false;         ///< ends the connection without an answer
};

/// An HTTP/1.1 server on 127.0.0.1 that answers as `handler` says; for what real servers seldom do.
/// One thread a connection; the handler is called under a lock. Ends with its owner, whatever its
/// clients wait for.
class HttpFaultServer {
 public:
  using Handler = std::function<HttpAnswer(const HttpRequest&)>;

  explicit HttpFaultServer(Handler handler)
      : handler_(std::move(handler)), listener_(runtime::listen_tcp("127.0.0.1", port_)) {
    thread_ = std::thread([this] { accept_all(); });
  }
  HttpFaultServer(const HttpFaultServer&) = delete;
  HttpFaultServer& operator=(const HttpFaultServer&) = delete;
  ~HttpFaultServer() {
    stop_.give();
    thread_.join();
    for (auto& thread : connections_) thread.join();
  }

  uint16_t port() const { return port_; }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  std::vector<HttpRequest> requests() {
    std::lock_guard lock(mutex_);
    return requests_;
  }
  size_t connection_count() {
    std::lock_guard lock(mutex_);
    return connections_.size();
  }

 private:
  void accept_all() {
    while (stop_.wait(listener_.get(), POLLIN)) {
      runtime::FileDescriptor socket = runtime::accept_connection(listener_.get());
      if (!socket.valid()) continue;
      std::lock_guard lock(mutex_);
      connections_.emplace_back([this, fd = std::move(socket)]() mutable { serve(std::move(fd)); });
    }
  }

  bool receive(int fd, std::string& data) const {
    std::vector<std::byte> buffer(1 << 18);
    return stop_.receive(fd, buffer, data);
  }

  bool send(int fd, std::string_view text) const {
    return stop_.send(fd, std::as_bytes(std::span(text)));
  }

  std::optional<HttpRequest> read_request(int fd, std::string& data) {
    size_t end = 0;
    while ((end = data.find("\r\n\r\n")) == data.npos)
      if (!receive(fd, data)) return std::nullopt;
    HttpRequest request;
    std::string_view head(data.data(), end);
    std::string_view line = head.substr(0, head.find("\r\n"));
    request.method = line.substr(0, line.find(' '));
    line.remove_prefix(request.method.size() + 1);
    request.target = line.substr(0, line.find(' '));
    while (!head.empty()) {
      const size_t next = head.find("\r\n");
      head.remove_prefix(next == head.npos ? head.size() : next + 2);
      const std::string_view field = head.substr(0, head.find("\r\n"));
      const size_t colon = field.find(": ");
      if (colon != field.npos) request.headers.add(field.substr(0, colon), field.substr(colon + 2));
    }
    data.erase(0, end + 4);
    const size_t length =
        store::http::parse_number(request.headers.get("content-length")).value_or(0);
    while (data.size() < length)
      if (!receive(fd, data)) return std::nullopt;
    request.body = data.substr(0, length);
    data.erase(0, length);
    return request;
  }

  void serve(runtime::FileDescriptor socket) {
    std::string data;
    while (auto request = read_request(socket.get(), data)) {
      HttpAnswer answer;
      {
        std::lock_guard lock(mutex_);
        answer = handler_(*request);
        request->body.clear();  // of uploads; the handler has seen it
        requests_.push_back(*request);
      }
      if (answer.close_at_once) return;
      if (answer.silent || answer.stall_after) {
        if (!answer.silent) {
          send(socket.get(), head_of(answer));
          send(socket.get(), std::string_view(answer.body).substr(0, *answer.stall_after));
        }
        receive(socket.get(), data);  // until the client leaves or the server ends
        return;
      }
      if (!send(socket.get(), head_of(answer))) return;
      if (request->method == "HEAD") continue;
      const std::string_view body(answer.body);
      if (!send(socket.get(), body.substr(0, answer.cut_after.value_or(body.npos)))) return;
      if (answer.cut_after) return;
    }
  }

  static std::string head_of(const HttpAnswer& answer) {
    std::string out = "HTTP/1.1 " + std::to_string(answer.status) + " X\r\n";
    for (const auto& [name, value] : answer.headers) out += name + ": " + value + "\r\n";
    out += "Content-Length: " + std::to_string(answer.announced.value_or(answer.body.size()));
    return out + "\r\n\r\n";
  }

  Handler handler_;
  uint16_t port_ = 0;
  runtime::FileDescriptor listener_;
  runtime::StopSignal stop_;
  std::mutex mutex_;
  std::vector<HttpRequest> requests_;
  std::list<std::thread> connections_;
  std::thread thread_;
};

/// The right answer for an object, with ranges, suffixes, If-Match and ETag.
inline HttpAnswer serve_object(const HttpRequest& request, const std::string& content,
                               const std::string& etag = "\"v1\"") {
  HttpAnswer answer;
  answer.headers = {{"ETag", etag}, {"Accept-Ranges", "bytes"}};
  const auto match = request.headers.get("if-match");
  if (!match.empty() && match != etag) {
    answer.status = 412;
    return answer;
  }
  std::string_view range = request.headers.get("range");
  if (!range.starts_with("bytes=")) {
    answer.body = content;
    return answer;
  }
  range.remove_prefix(6);
  const size_t dash = range.find('-');
  const auto first = store::http::parse_number(range.substr(0, dash));
  const auto last = store::http::parse_number(range.substr(dash + 1));
  const size_t size = content.size();
  const size_t from = first ? *first : size - std::min<size_t>(size, last.value_or(0));
  const size_t to = first && last ? std::min<size_t>(*last + 1, size) : size;
  if (from >= size) {
    answer.status = 416;
    answer.headers.emplace_back("Content-Range", "bytes */" + std::to_string(size));
    return answer;
  }
  answer.status = 206;
  answer.headers.emplace_back(
      "Content-Range",
      "bytes " + std::to_string(from) + "-" + std::to_string(to - 1) + "/" + std::to_string(size));
  answer.body = content.substr(from, to - from);
  return answer;
}

}  // namespace craton::testing
