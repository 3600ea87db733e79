#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "craton/control/rpc.h"
#include "craton/protocol/operator_requests.h"
#include "craton/runtime/file.h"

namespace craton::control {

/// The operator's ear: serves the calls of operator.proto on a unix socket for users of this
/// machine, and, when it is asked to, at an address for agents of other nodes. Hands each call and
/// each agent's stream to the thread that drives the operator.
class OperatorService {
 public:
  /// Answers one call with the bytes of a message; an Error goes to the caller.
  using Handle = std::function<std::string(const std::string& method, const std::string& request)>;

  /// Listens beside the job's files, or, where that path is too long for a socket, in a temporary
  /// folder of this user; and at `agents` ("0.0.0.0:7077", port 0: picked) unless it is empty.
  /// Error when that is not possible.
  OperatorService(const std::filesystem::path& folder, const std::string& agents, Handle handle);
  OperatorService(const OperatorService&) = delete;
  OperatorService& operator=(const OperatorService&) = delete;
  ~OperatorService();

  /// As in OperatorAddress::calls.
  const std::string& address() const { return address_; }
  /// As in OperatorAddress::agents; empty when it does not listen for any.
  const std::string& agents() const { return agents_; }
  /// Readable while calls wait for `answer_waiting`, or something happened on a stream.
  int fd() const { return wake_.get(); }
  /// On the thread that drives the operator: answers all calls that wait.
  void answer_waiting();
  /// Streams of agents that have begun since the last time.
  std::vector<std::unique_ptr<RpcStream>> take_streams();

 private:
  struct Call {
    std::string method, request;
    std::function<void(RpcReply)> answer;
  };
  void take_call(Call call);
  void wake();
  void serve(const std::string& agents);

  const Handle handle_;
  std::unique_ptr<runtime::TemporaryDirectory> elsewhere_;
  std::filesystem::path socket_;
  std::string address_, agents_;
  runtime::FileDescriptor wake_;
  std::mutex mutex_;
  std::vector<Call> waiting_;
  std::vector<std::unique_ptr<RpcStream>> streams_;
  bool closing_ = false;
  std::unique_ptr<RpcServer> server_;
};

/// The user's side.
protocol::Answer ask(const std::string& address, const protocol::EventBody& request);
protocol::JobStatus ask_status(const std::string& address);

}  // namespace craton::control
