#include "craton/store/cache/cache_server.h"

#include <poll.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <list>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include "craton/base/error.h"
#include "craton/runtime/socket.h"
#include "craton/runtime/stop_signal.h"
#include "craton/store/http/message.h"
#include "craton/store/http/url.h"

namespace craton::store {
namespace {

using runtime::FileDescriptor;

constexpr size_t kMostHead = 8 << 10;
constexpr auto kIdle = std::chrono::seconds(60);   ///< a connection without a request is closed
constexpr auto kStall = std::chrono::seconds(10);  ///< within a request or an answer

struct Request {
  std::string method, path, token;
  uint64_t length = 0;
};

/// The first line and what is needed of the others; nullopt for what is no request.
std::optional<Request> parse_head(std::string_view head) {
  Request request;
  const std::string_view line = head.substr(0, head.find("\r\n"));
  const size_t first = line.find(' '), second = line.rfind(' ');
  if (first == line.npos || second <= first || !line.ends_with("HTTP/1.1")) return std::nullopt;
  request.method = line.substr(0, first);
  const std::string_view target = line.substr(first + 1, second - first - 1);
  const size_t question = target.find('?');
  request.path = target.substr(0, question);
  if (question != target.npos && target.substr(question + 1).starts_with("token="))
    request.token = http::percent_decode(target.substr(question + 7));
  http::Headers headers;
  for (size_t at = line.size(); at + 2 < head.size();) {
    at += 2;
    const size_t end = std::min(head.find("\r\n", at), head.size());
    const std::string_view field = head.substr(at, end - at);
    const size_t colon = field.find(':');
    if (colon == field.npos) return std::nullopt;
    std::string_view value = field.substr(colon + 1);
    while (value.starts_with(' ')) value.remove_prefix(1);
    headers.add(field.substr(0, colon), value);
    at = end;
  }
  if (headers.has("transfer-encoding")) return std::nullopt;
  if (headers.has("content-length")) {
    const auto length = http::parse_number(headers.get("content-length"));
    if (!length) return std::nullopt;
    request.length = *length;
  }
  return request;
}

/// Takes as long whatever the texts have in common.
bool same_token(std::string_view a, std::string_view b) {
  unsigned char difference = a.size() != b.size();
  for (size_t i = 0; i < a.size() && i < b.size(); ++i)
    difference |= static_cast<unsigned char>(a[i] ^ b[i]);
  return difference == 0;
}

}  // namespace

struct CacheServer::State {
  State(std::shared_ptr<NodeCache> c, const CacheServerOptions& o)
      : cache(std::move(c)), options(o) {}

  void accept_all();
  void serve(FileDescriptor socket);
  bool answer(int fd, int status, std::span<const std::byte> body) const;
  bool answer(int fd, int status, std::string_view text = {}) const {
    return answer(fd, status, std::as_bytes(std::span(text)));
  }
  bool handle(int fd, const Request& request, std::span<const std::byte> body);

  struct Connection {
    std::thread thread;
    std::atomic<bool> ended{false};
  };

  std::shared_ptr<NodeCache> cache;
  const CacheServerOptions options;
  uint16_t port = 0;
  FileDescriptor listener;
  runtime::StopSignal stop;
  std::list<Connection> connections;
  std::thread thread;
  std::atomic<uint64_t> given{0}, missing{0}, taken{0}, refused{0};
};

bool CacheServer::State::answer(int fd, int status, std::span<const std::byte> body) const {
  const std::string head = fmt::format("HTTP/1.1 {} {}\r\nContent-Length: {}\r\n\r\n", status,
                                       status < 300 ? "OK" : "No", body.size());
  return stop.send(fd, std::as_bytes(std::span(head)), kStall) && stop.send(fd, body, kStall);
}

/// False when the connection has to end.
bool CacheServer::State::handle(int fd, const Request& request, std::span<const std::byte> body) {
  if (!options.token.empty() && !same_token(request.token, options.token)) {
    ++refused;
    return answer(fd, 403);
  }
  if (!request.path.starts_with("/v1/")) return answer(fd, 404);
  const std::string name = request.path.substr(4);
  if (request.method == "GET" && name == "id") return answer(fd, 200, cache->id());
  if (request.method == "GET") {
    const auto entry = cache->find_name(name);
    ++(entry ? given : missing);
    return entry ? answer(fd, 200, entry->image()) : answer(fd, 404);
  }
  if (request.method != "PUT") return answer(fd, 405);
  if (cache->find_name(name)) return answer(fd, 204);
  const bool kept = cache->put_image(name, body);
  ++(kept ? taken : refused);
  if (kept) return answer(fd, 204);
  return answer(fd, body.size() > cache->limit() / 8 ? 507 : 400);
}

void CacheServer::State::serve(FileDescriptor socket) {
  const int fd = socket.get();
  std::vector<std::byte> buffer(256 << 10);
  std::string data;
  const auto receive = [&](std::chrono::milliseconds timeout) {
    return stop.receive(fd, buffer, data, timeout);
  };
  for (;;) {
    size_t end = 0;
    while ((end = data.find("\r\n\r\n")) == data.npos)
      if (data.size() > kMostHead || !receive(data.empty() ? kIdle : kStall)) return;
    const auto request = parse_head(std::string_view(data).substr(0, end));
    data.erase(0, end + 4);
    if (!request) {
      answer(fd, 400);
      return;
    }
    if (request->length > cache->limit() / 8) {
      answer(fd, 507);
      return;
    }
    while (data.size() < request->length)
      if (!receive(kStall)) return;
    if (!handle(fd, *request, std::as_bytes(std::span(data)).first(request->length))) return;
    data.erase(0, request->length);
  }
}

void CacheServer::State::accept_all() {
  while (stop.wait(listener.get(), POLLIN)) {
    FileDescriptor socket = runtime::accept_connection(listener.get());
    std::erase_if(connections, [](Connection& c) {
      if (!c.ended) return false;
      c.thread.join();
      return true;
    });
    if (!socket.valid() || connections.size() >= options.connections) continue;
    runtime::tune_tcp(socket.get());
    Connection& connection = connections.emplace_back();
    connection.thread = std::thread([this, &connection, fd = std::move(socket)]() mutable {
      serve(std::move(fd));
      connection.ended = true;
    });
  }
}

CacheServer::CacheServer(std::shared_ptr<NodeCache> cache, const CacheServerOptions& options) {
  if (options.token.empty() && options.host != "127.0.0.1")
    fail(ErrorCode::kInvalidArgument,
         "a cache on {} is open to whoever reaches this host; set CRATON_CACHE_TOKEN on all nodes, "
         "or listen on 127.0.0.1",
         options.host.empty() ? "all addresses" : options.host);
  state_ = std::make_unique<State>(std::move(cache), options);
  state_->port = options.port;
  state_->listener = runtime::listen_tcp(options.host, state_->port);
  state_->thread = std::thread([state = state_.get()] { state->accept_all(); });
}

CacheServer::~CacheServer() {
  state_->stop.give();
  state_->thread.join();
  for (auto& connection : state_->connections) connection.thread.join();
}

uint16_t CacheServer::port() const { return state_->port; }

CacheServer::Counters CacheServer::counters() const {
  return {state_->given, state_->missing, state_->taken, state_->refused};
}

}  // namespace craton::store
