#pragma once

#include <condition_variable>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "craton/control/rpc.h"
#include "craton/protocol/operator_messages.h"
#include "craton/runtime/file.h"

namespace craton::control {

/// The operator's ear for users: serves the calls of operator.proto on a unix socket, and hands
/// each to the thread that drives the operator.
class OperatorService {
 public:
  /// Answers one call with the bytes of a message; an Error goes to the caller.
  using Handle = std::function<std::string(const std::string& method, const std::string& request)>;

  /// Listens beside the job's files, or, where that path is too long for a socket, in a temporary
  /// folder of this user. Error when that is not possible.
  OperatorService(const std::filesystem::path& folder, Handle handle);
  OperatorService(const OperatorService&) = delete;
  OperatorService& operator=(const OperatorService&) = delete;
  ~OperatorService();

  /// As in OperatorAddress::calls.
  const std::string& address() const { return address_; }
  /// Readable while calls wait for `answer_waiting`.
  int fd() const { return wake_.get(); }
  /// On the thread that drives the operator: answers all calls that wait.
  void answer_waiting();

 private:
  struct Call {
    const std::string& method;
    const std::string& request;
    RpcReply reply;
    bool answered = false;
  };
  RpcReply wait_for_answer(const std::string& method, const std::string& request);

  const Handle handle_;
  std::unique_ptr<runtime::TemporaryDirectory> elsewhere_;
  std::filesystem::path socket_;
  std::string address_;
  runtime::FileDescriptor wake_;
  std::mutex mutex_;
  std::condition_variable answered_;
  std::deque<Call*> waiting_;
  bool closing_ = false;
  std::unique_ptr<RpcServer> server_;
};

/// The user's side.
protocol::Answer ask(const std::string& address, const protocol::EventBody& request);
protocol::JobStatus ask_status(const std::string& address);

}  // namespace craton::control
