#include "craton/store/http/reactor.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "craton/base/check.h"
#include "craton/store/http/dispatcher.h"

namespace craton::store::http {

namespace {

constexpr int kPollMs = 50;
constexpr long kBuffer = 512 << 10;
constexpr size_t kIdleHandles = 256;
constexpr size_t kMostHeaders = 256, kMostHeaderBytes = 64 << 10;

struct ListDeleter {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

Fault fault_of(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
      return Fault::kResolve;
    case CURLE_COULDNT_CONNECT:
    case CURLE_OPERATION_TIMEDOUT:
      return Fault::kConnect;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CONNECT_ERROR:
      return Fault::kTls;
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_BAD_CONTENT_ENCODING:
      return Fault::kWrongAnswer;
    default:
      return Fault::kCut;
  }
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && static_cast<unsigned char>(text.back()) <= ' ') text.remove_suffix(1);
  return text;
}

}  // namespace

/// A transfer with its handle and what libcurl's callbacks need.
struct Reactor::Active {
  explicit Active(Transfer& t) : transfer(t) {}
  Transfer& transfer;
  Easy easy;
  std::unique_ptr<curl_slist, ListDeleter> headers;
  size_t header_bytes = 0, body_sent = 0;
  bool head_seen = false;  ///< of the final answer, after its blank line
  Fault fault = Fault::kNone;
  char message[CURL_ERROR_SIZE] = {};

  static size_t on_header(char* data, size_t, size_t size, void* self) {
    return static_cast<Active*>(self)->take_header({data, size}) ? size : 0;
  }
  static size_t on_write(char* data, size_t, size_t size, void* self) {
    return static_cast<Active*>(self)->take_body({data, size}) ? size : CURL_WRITEFUNC_ERROR;
  }
  static size_t on_read(char* to, size_t, size_t room, void* self) {
    return static_cast<Active*>(self)->give_body(to, room);
  }
  static int on_seek(void* self, curl_off_t offset, int origin) {
    auto& active = *static_cast<Active*>(self);
    if (origin != SEEK_SET || offset < 0) return CURL_SEEKFUNC_CANTSEEK;
    active.transfer.repeated = true;
    active.body_sent =
        std::min<size_t>(static_cast<size_t>(offset), active.transfer.request.body.size());
    return CURL_SEEKFUNC_OK;
  }

  bool take_header(std::string_view line) {
    Response& response = transfer.response;
    transfer.times.is_sent = true;  // a server may refuse before it has read everything
    if (!transfer.times.has_answer) {
      transfer.times.has_answer = true;
      transfer.times.first_byte = transfer.times.last_mark = Clock::now();
    }
    if (line.starts_with("HTTP/")) {
      response = {};
      header_bytes = 0;
      const size_t space = line.find(' ');
      const auto code = space == line.npos ? std::nullopt : parse_number(line.substr(space + 1, 3));
      if (!code) return false;
      response.status = static_cast<int>(*code);
      return true;
    }
    const std::string_view text = trimmed(line);
    if (text.empty()) return response.status < 200 || end_of_head();
    header_bytes += text.size();
    if (header_bytes > kMostHeaderBytes || response.headers.all().size() >= kMostHeaders) {
      fault = Fault::kWrongAnswer;
      transfer.detail = "the answer's header is too long";
      return false;
    }
    const size_t colon = text.find(':');
    if (colon != text.npos)
      response.headers.add(trimmed(text.substr(0, colon)), trimmed(text.substr(colon + 1)));
    return true;
  }

  bool end_of_head() {
    if (head_seen) return true;  // trailers
    head_seen = true;
    const bool good = transfer.response.status / 100 == 2;
    if (!good || transfer.sink == nullptr || transfer.request.method == "HEAD") return true;
    fault = transfer.sink->begin(transfer.response);
    return fault == Fault::kNone;
  }

  bool take_body(std::string_view bytes) {
    transfer.times.moved += bytes.size();
    if (transfer.sink != nullptr && transfer.response.status / 100 == 2) {
      fault = transfer.sink->write(std::as_bytes(std::span(bytes)));
      return fault == Fault::kNone;
    }
    std::string& text = transfer.response.text;
    if (text.size() + bytes.size() > kMaxText) {
      fault = Fault::kWrongAnswer;
      transfer.detail = "the answer is longer than any such answer may be";
      return false;
    }
    text += bytes;
    return true;
  }

  size_t give_body(char* to, size_t room) {
    const auto body = transfer.request.body;
    const size_t n = std::min(room, body.size() - body_sent);
    if (n > 0) std::memcpy(to, body.data() + body_sent, n);
    body_sent += n;
    transfer.times.moved += n;
    if (body_sent == body.size()) mark_sent();
    return n;
  }

  void mark_sent() {
    if (transfer.times.is_sent) return;
    transfer.times.is_sent = true;
    transfer.times.sent = Clock::now();
  }

  void configure();
  void configure_body();
  void configure_headers();
};

void Reactor::Active::configure() {
  CURL* h = easy.get();
  const std::string url = transfer.request.url.text();
  curl_easy_setopt(h, CURLOPT_URL, url.c_str());
  curl_easy_setopt(h, CURLOPT_PATH_AS_IS, 1L);
  curl_easy_setopt(h, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(h, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_2TLS));
  curl_easy_setopt(h, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(h, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(h, CURLOPT_TCP_KEEPALIVE, 1L);
  curl_easy_setopt(h, CURLOPT_BUFFERSIZE, kBuffer);
  curl_easy_setopt(h, CURLOPT_UPLOAD_BUFFERSIZE, kBuffer);
  curl_easy_setopt(h, CURLOPT_CONNECTTIMEOUT_MS,
                   static_cast<long>(transfer.limits.connect.count()));
  curl_easy_setopt(h, CURLOPT_ERRORBUFFER, message);
  curl_easy_setopt(h, CURLOPT_HEADERFUNCTION, &Active::on_header);
  curl_easy_setopt(h, CURLOPT_HEADERDATA, this);
  curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, &Active::on_write);
  curl_easy_setopt(h, CURLOPT_WRITEDATA, this);
  if (const char* bundle = std::getenv("AWS_CA_BUNDLE"); bundle != nullptr && *bundle != '\0')
    curl_easy_setopt(h, CURLOPT_CAINFO, bundle);
  if (transfer.no_proxy) curl_easy_setopt(h, CURLOPT_NOPROXY, "*");
  if (transfer.fresh_connection) {
    curl_easy_setopt(h, CURLOPT_FRESH_CONNECT, 1L);
    curl_easy_setopt(h, CURLOPT_DNS_CACHE_TIMEOUT, 0L);
  }
  configure_body();
  configure_headers();
}

void Reactor::Active::configure_body() {
  CURL* h = easy.get();
  const Request& request = transfer.request;
  if (request.method == "HEAD") {
    curl_easy_setopt(h, CURLOPT_NOBODY, 1L);
  } else if (request.method == "PUT" || request.method == "POST") {
    curl_easy_setopt(h, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(h, CURLOPT_CUSTOMREQUEST, request.method.c_str());
    curl_easy_setopt(h, CURLOPT_READFUNCTION, &Active::on_read);
    curl_easy_setopt(h, CURLOPT_READDATA, this);
    curl_easy_setopt(h, CURLOPT_SEEKFUNCTION, &Active::on_seek);
    curl_easy_setopt(h, CURLOPT_SEEKDATA, this);
    curl_easy_setopt(h, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
  } else if (request.method != "GET") {
    curl_easy_setopt(h, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  }
}

void Reactor::Active::configure_headers() {
  curl_slist* list = nullptr;
  for (const auto& [name, value] : transfer.request.headers.all())
    list = curl_slist_append(list, (name + (value.empty() ? ";" : ": " + value)).c_str());
  for (const char* unwanted : {"Expect:", "Accept:"}) list = curl_slist_append(list, unwanted);
  headers.reset(list);
  curl_easy_setopt(easy.get(), CURLOPT_HTTPHEADER, list);
}

Reactor::Reactor(Dispatcher& dispatcher) : dispatcher_(dispatcher), multi_(curl_multi_init()) {
  CRATON_CHECK(multi_ != nullptr);
  curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS, 512L);
  curl_multi_setopt(multi_, CURLMOPT_PIPELINING, static_cast<long>(CURLPIPE_MULTIPLEX));
  thread_ = std::thread([this] { run(); });
}

Reactor::~Reactor() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake();
  thread_.join();
  idle_.clear();
  curl_multi_cleanup(multi_);
}

void Reactor::start(Transfer& transfer) {
  {
    std::lock_guard lock(mutex_);
    new_.push_back(&transfer);
  }
  wake();
}

void Reactor::wake() { curl_multi_wakeup(multi_); }

void Reactor::run() {
  while (true) {
    {
      std::lock_guard lock(mutex_);
      if (stop_ && new_.empty() && active_.empty()) return;
    }
    take_new();
    int running = 0;
    curl_multi_perform(multi_, &running);
    collect();
    judge_all();
    curl_multi_poll(multi_, nullptr, 0, active_.empty() ? 10'000 : kPollMs, nullptr);
  }
}

void Reactor::take_new() {
  std::vector<Transfer*> fresh;
  {
    std::lock_guard lock(mutex_);
    fresh.swap(new_);
  }
  for (Transfer* transfer : fresh) begin(*transfer);
}

void Reactor::begin(Transfer& transfer) {
  auto active = std::make_unique<Active>(transfer);
  if (idle_.empty()) {
    active->easy.reset(curl_easy_init());
  } else {
    active->easy = std::move(idle_.back());
    idle_.pop_back();
  }
  CURL* easy = active->easy.get();
  transfer.response = {};
  transfer.fault = Fault::kNone;
  transfer.times = {};
  transfer.repeated = false;
  transfer.times.started = Clock::now();
  if (easy == nullptr) {
    transfer.fault = Fault::kConnect;
    transfer.detail = "libcurl gave no handle";
    report(transfer);
    return;
  }
  active->configure();
  curl_multi_add_handle(multi_, easy);
  active_[easy] = std::move(active);
}

void Reactor::collect() {
  int left = 0;
  while (CURLMsg* message = curl_multi_info_read(multi_, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    Active& active = *active_.at(message->easy_handle);
    const CURLcode code = message->data.result;
    if (code == CURLE_OK) {
      end(message->easy_handle, Fault::kNone, "");
    } else if (active.fault != Fault::kNone) {
      end(message->easy_handle, active.fault, active.transfer.detail);
    } else {
      const char* text = active.message[0] != '\0' ? active.message : curl_easy_strerror(code);
      end(message->easy_handle, fault_of(code), text);
    }
  }
}

void Reactor::judge_all() {
  const auto now = Clock::now();
  std::vector<std::pair<CURL*, Fault>> ended;
  for (auto& [easy, active] : active_) {
    TransferTimes& times = active->transfer.times;
    if (!times.is_connected) {
      // Set once the connection stands and the request is on its way; 0 until then.
      curl_off_t pretransfer = 0;
      curl_easy_getinfo(easy, CURLINFO_PRETRANSFER_TIME_T, &pretransfer);
      if (pretransfer > 0 || times.has_answer || times.moved > 0) {
        times.is_connected = true;
        times.connected = times.last_mark = now;
      }
    }
    if (times.is_connected && active->transfer.request.body.empty()) active->mark_sent();
    Fault fault = judge(times, active->transfer.limits, active->transfer.deadline, now);
    if (active->transfer.cancelled) fault = Fault::kCancelled;
    if (fault != Fault::kNone) ended.emplace_back(easy, fault);
  }
  for (const auto& [easy, fault] : ended) end(easy, fault, "");
}

void Reactor::end(CURL* easy, Fault fault, const std::string& detail) {
  const auto it = active_.find(easy);
  auto active = std::move(it->second);
  active_.erase(it);
  curl_multi_remove_handle(multi_, easy);
  curl_easy_reset(easy);  // keeps connections, session and DNS caches
  if (idle_.size() < kIdleHandles) idle_.push_back(std::move(active->easy));
  Transfer& transfer = active->transfer;
  active.reset();
  transfer.fault = fault;
  transfer.detail = detail;
  report(transfer);
}

void Reactor::report(Transfer& transfer) {
  dispatcher_.finished(transfer);
  const auto done = std::move(transfer.done);  // the owner may end the transfer while this runs
  done();
}

}  // namespace craton::store::http
