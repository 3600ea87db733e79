#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace craton::control {

/// Outcome of a call: the answer's bytes, or what went wrong.
struct RpcReply {
  bool ok = false;
  std::string bytes;  ///< ok: the message; else a sentence
};

/// One end of a stream of messages in both directions. Thread-safe; destroying it ends the stream.
class RpcStream {
 public:
  /// So much may wait to be sent before the stream is given up: the other side takes nothing.
  static constexpr size_t kMostWaiting = 256u << 20;
  /// So many messages may wait to be received; what comes then waits at the sender.
  static constexpr size_t kMostReceived = 1024;

  virtual ~RpcStream() = default;
  /// Never blocks. Dropped when the stream has ended.
  virtual void send(const std::string& message) = 0;
  /// The next message that has arrived.
  virtual std::optional<std::string> receive() = 0;
  /// Nothing will come any more, and all that came was received.
  virtual bool ended() const = 0;
};

/// What a server does with what reaches it. Called on threads of the server, several at a time.
struct RpcHandlers {
  /// Gives `answer` its reply, at once or later, from any thread; exactly once.
  std::function<void(const std::string& method, std::string request,
                     std::function<void(RpcReply)> answer)>
      call;
  /// A stream has begun, by the method below.
  std::function<void(std::unique_ptr<RpcStream>)> stream;
  std::string stream_method;
  /// Something has arrived on a stream, or one has ended.
  std::function<void()> wake;
};

/// Serves until it is destroyed; by then all calls must have been answered.
class RpcServer {
 public:
  virtual ~RpcServer() = default;
  /// By address, in the order of `RpcModule::serve`; of unix sockets 0.
  virtual std::vector<int> ports() const = 0;
};

/// gRPC, as bytes: whoever uses it brings the messages. It lives in a library of its own that is
/// loaded at the first use, so that commands that do not call anybody start without it.
class RpcModule {
 public:
  virtual ~RpcModule() = default;
  /// Addresses as gRPC writes them, "unix:/path" or "0.0.0.0:7077" (port 0: picked). Null when one
  /// of them cannot be listened on.
  virtual std::unique_ptr<RpcServer> serve(const std::vector<std::string>& addresses,
                                           RpcHandlers handlers) = 0;
  virtual RpcReply call(const std::string& address, const std::string& method,
                        const std::string& request, std::chrono::milliseconds deadline) = 0;
  /// Connects within `deadline`; null when that fails. `wake`: something has arrived, or the stream
  /// has ended.
  virtual std::unique_ptr<RpcStream> open(const std::string& address, const std::string& method,
                                          std::chrono::milliseconds deadline,
                                          std::function<void()> wake) = 0;
};

/// Name of the library, beside the program or in ../lib/craton, and of its one function:
/// `RpcModule* craton_rpc_module()`, which keeps ownership.
inline constexpr const char* kRpcLibrary = "libcraton-grpc.so";
inline constexpr const char* kRpcFunction = "craton_rpc_module";

/// Loads the library. Error kNotFound when it is not there.
RpcModule& rpc_module();

}  // namespace craton::control
