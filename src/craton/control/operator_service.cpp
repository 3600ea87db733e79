#include "craton/control/operator_service.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>

#include "craton/base/error.h"

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

OperatorService::OperatorService(const fs::path& folder, Handle handle)
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
  server_ =
      rpc_module().serve(address_, [this](const std::string& method, const std::string& request) {
        return wait_for_answer(method, request);
      });
  if (!server_)
    fail(ErrorCode::kIo, "cannot listen for `craton status` and the like at {}", socket_.string());
}

OperatorService::~OperatorService() {
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
  }
  answered_.notify_all();
  server_.reset();
  std::error_code error;
  fs::remove(socket_, error);
}

RpcReply OperatorService::wait_for_answer(const std::string& method, const std::string& request) {
  Call call{method, request, {}, false};
  std::unique_lock lock(mutex_);
  waiting_.push_back(&call);
  const uint64_t one = 1;
  if (::write(wake_.get(), &one, sizeof(one)) < 0 && errno != EAGAIN)
    return {false, "the operator cannot be woken"};
  answered_.wait(lock, [&] { return call.answered || closing_; });
  std::erase(waiting_, &call);
  if (!call.answered) return {false, "the job has just ended"};
  return call.reply;
}

void OperatorService::answer_waiting() {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t n = ::read(wake_.get(), &count, sizeof(count));
  std::lock_guard lock(mutex_);
  for (Call* call : waiting_) {
    try {
      call->reply = {true, handle_(call->method, call->request)};
    } catch (const Error& e) {
      call->reply = {false, e.what()};
    }
    call->answered = true;
  }
  waiting_.clear();
  answered_.notify_all();
}

protocol::Answer ask(const std::string& address, const protocol::EventBody& request) {
  return protocol::decode_answer(
      call(address, method_of(request), protocol::encode_request(request, cluster::Instant(0))));
}

protocol::JobStatus ask_status(const std::string& address) {
  return protocol::decode_status(call(address, protocol::kStatusMethod, ""));
}

}  // namespace craton::control
