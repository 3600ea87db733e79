#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace craton::control {

/// Outcome of a call: the answer's bytes, or what went wrong.
struct RpcReply {
  bool ok = false;
  std::string bytes;  ///< ok: the message; else a sentence
};

/// Answers "/package.Service/Method" with its request's bytes. Called on one thread of the server,
/// one call at a time.
using RpcHandler = std::function<RpcReply(const std::string& method, const std::string& request)>;

/// Serves until it is destroyed; calls in progress are answered first.
class RpcServer {
 public:
  virtual ~RpcServer() = default;
};

/// gRPC, as bytes: whoever uses it brings the messages. It lives in a library of its own that is
/// loaded at the first use, so that commands that do not call anybody start without it.
class RpcModule {
 public:
  virtual ~RpcModule() = default;
  /// `address` as gRPC writes them, "unix:/path". Null when it cannot be listened on.
  virtual std::unique_ptr<RpcServer> serve(const std::string& address, RpcHandler handler) = 0;
  virtual RpcReply call(const std::string& address, const std::string& method,
                        const std::string& request, std::chrono::milliseconds deadline) = 0;
};

/// Name of the library, beside the program or in ../lib/craton, and of its one function:
/// `RpcModule* craton_rpc_module()`, which keeps ownership.
inline constexpr const char* kRpcLibrary = "libcraton-grpc.so";
inline constexpr const char* kRpcFunction = "craton_rpc_module";

/// Loads the library. Error kNotFound when it is not there.
RpcModule& rpc_module();

}  // namespace craton::control
