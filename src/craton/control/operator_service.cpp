#include "craton/control/operator_service.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>

#include "craton/base/error.h"
#include "craton/protocol/agent_messages.h"

namespace craton::control {
namespace fs = std::filesystem;
namespace {

constexpr size_t kLongestSocketPath = 100;  // sockaddr_un has 108 bytes
constexpr std::chrono::milliseconds kCallDeadline{10000};

/// gRPC reads the address as a URI, so only plain characters are used as they are.
bool fits_a_socket(const std::string& path) {
  return path.size() <= kLongestSocketPath &&
         std::all_of(path.begin(), path.end(), [](unsigned char c) {
           return std::isalnum(c) || c == '/' || c == '.' || c == '-' || c == '_';
         });
}

std::string call(const std::string& address, std::string_view method, const std::string& request) {
  const RpcReply reply = rpc_module().call(address, std::string(method), request, kCallDeadline);
  if (!reply.ok)
    fail(ErrorCode::kPeerLost, "the job's operator does not answer at {}: {}", address,
         reply.bytes);
  return reply.bytes;
}

std::string_view method_of(const protocol::EventBody& request) {
  if (std::holds_alternative<cluster::ScaleRequested>(request)) return protocol::kScaleMethod;
  if (std::holds_alternative<cluster::DrainRequested>(request)) return protocol::kDrainMethod;
  if (std::holds_alternative<cluster::UndrainRequested>(request)) return protocol::kUndrainMethod;
  return protocol::kStopMethod;
}

}  // namespace

OperatorService::OperatorService(const fs::path& folder, const std::string& agents, Handle handle)
    : handle_(std::move(handle)), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!wake_.valid()) fail_errno("cannot make an event descriptor", errno);
  socket_ = fs::absolute(folder) / "operator.sock";
  if (!fits_a_socket(socket_.string())) {
    elsewhere_ = std::make_unique<runtime::TemporaryDirectory>();
    socket_ = elsewhere_->path() / "operator.sock";
  }
  std::error_code error;
  fs::remove(socket_, error);  // of an operator that was killed
  address_ = "unix:" + socket_.string();
  serve(agents);
}

void OperatorService::serve(const std::string& agents) {
  std::vector<std::string> addresses = {address_};
  if (!agents.empty()) addresses.push_back(agents);
  RpcHandlers handlers;
  handlers.call = [this](const std::string& method, std::string request,
                         std::function<void(RpcReply)> answer) {
    take_call({method, std::move(request), std::move(answer)});
  };
  handlers.stream_method = protocol::kAttachMethod;
  handlers.stream = [this](std::unique_ptr<RpcStream> stream) {
    {
      std::lock_guard lock(mutex_);
      streams_.push_back(std::move(stream));
    }
    wake();
  };
  handlers.wake = [this] { wake(); };
  server_ = rpc_module().serve(addresses, std::move(handlers));
  if (!server_ && agents.empty())
    fail(ErrorCode::kIo, "cannot listen for `craton status` and the like at {}", socket_.string());
  if (!server_)
    fail(ErrorCode::kIo, "cannot listen for agents at {}: another program may have that port",
         agents);
  if (!agents.empty())
    agents_ = fmt::format("{}:{}", agents.substr(0, agents.rfind(':')), server_->ports().back());
}

OperatorService::~OperatorService() {
  std::vector<Call> calls;
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
    calls.swap(waiting_);
    streams_.clear();
  }
  for (const Call& call : calls) call.answer({false, "the job has just ended"});
  server_.reset();
  std::error_code error;
  fs::remove(socket_, error);
}

void OperatorService::wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(wake_.get(), &one, sizeof(one));  // full: awake
}

void OperatorService::take_call(Call call) {
  {
    std::lock_guard lock(mutex_);
    if (!closing_) {
      waiting_.push_back(std::move(call));
      wake();
      return;
    }
  }
  call.answer({false, "the job has just ended"});
}

void OperatorService::answer_waiting() {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t n = ::read(wake_.get(), &count, sizeof(count));
  std::vector<Call> calls;
  {
    std::lock_guard lock(mutex_);
    calls.swap(waiting_);
  }
  for (const Call& call : calls) {
    RpcReply reply;
    try {
      reply = {true, handle_(call.method, call.request)};
    } catch (const Error& e) {
      reply = {false, e.what()};
    }
    call.answer(reply);
  }
}

std::vector<std::unique_ptr<RpcStream>> OperatorService::take_streams() {
  std::lock_guard lock(mutex_);
  return std::exchange(streams_, {});
}

protocol::Answer ask(const std::string& address, const protocol::EventBody& request) {
  return protocol::decode_answer(
      call(address, method_of(request), protocol::encode_request(request, cluster::Instant(0))));
}

protocol::JobStatus ask_status(const std::string& address) {
  return protocol::decode_status(call(address, protocol::kStatusMethod, ""));
}

}  // namespace craton::control
