// The library behind control/rpc.h: gRPC calls as bytes. It links nothing of Craton, so the
// descriptors of Craton's messages exist once in a process, in the program that loads this.

#include <grpcpp/create_channel.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <mutex>
#include <thread>

#include "craton/control/rpc.h"

namespace craton::app {
namespace {

grpc::ByteBuffer to_buffer(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

std::string to_text(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string out;
  if (!buffer.Dump(&slices).ok()) return out;
  for (const grpc::Slice& slice : slices)
    out.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return out;
}

/// One unary call, from its arrival to its answer: each stage ends with an event of the queue that
/// carries this as its tag.
class ServedCall {
 public:
  ServedCall(grpc::AsyncGenericService& service, grpc::ServerCompletionQueue& queue)
      : stream_(&context_) {
    service.RequestCall(&context_, &stream_, &queue, &queue, this);
  }

  /// True when the call has arrived with this event: another one can be waited for.
  bool arrives() const { return stage_ == Stage::kArrive; }

  /// The next stage; false when there is none and the call can be deleted.
  bool advance(bool ok, const control::RpcHandler& handler) {
    if (!ok && stage_ != Stage::kAnswer) return false;
    switch (stage_) {
      case Stage::kArrive:
        stage_ = Stage::kRead;
        stream_.Read(&request_, this);
        return true;
      case Stage::kRead: {
        stage_ = Stage::kAnswer;
        const control::RpcReply reply = handler(context_.method(), to_text(request_));
        if (reply.ok) {
          stream_.WriteAndFinish(to_buffer(reply.bytes), {}, grpc::Status::OK, this);
        } else {
          stream_.Finish({grpc::StatusCode::INVALID_ARGUMENT, reply.bytes}, this);
        }
        return true;
      }
      case Stage::kAnswer:
        return false;
    }
    return false;
  }

 private:
  enum class Stage { kArrive, kRead, kAnswer };
  Stage stage_ = Stage::kArrive;
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter stream_;
  grpc::ByteBuffer request_;
};

class Server : public control::RpcServer {
 public:
  Server(const std::string& address, control::RpcHandler handler) : handler_(std::move(handler)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address, grpc::InsecureServerCredentials());
    builder.RegisterAsyncGenericService(&service_);
    queue_ = builder.AddCompletionQueue();
    server_ = builder.BuildAndStart();
    if (!server_) return;
    await_call();
    thread_ = std::thread([this] { serve(); });
  }

  ~Server() override {
    if (!server_) return;
    {
      std::lock_guard lock(mutex_);
      closing_ = true;
    }
    server_->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
    queue_->Shutdown();
    thread_.join();
  }

  bool listens() const { return server_ != nullptr; }

 private:
  /// Nothing may be asked of a queue that is shut down.
  void await_call() {
    std::lock_guard lock(mutex_);
    if (!closing_) new ServedCall(service_, *queue_);
  }

  void serve() {
    void* tag = nullptr;
    bool ok = false;
    while (queue_->Next(&tag, &ok)) {
      auto* call = static_cast<ServedCall*>(tag);
      if (ok && call->arrives()) await_call();
      if (!call->advance(ok, handler_)) delete call;
    }
  }

  const control::RpcHandler handler_;
  grpc::AsyncGenericService service_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
  std::mutex mutex_;
  bool closing_ = false;
  std::thread thread_;
};

class Module : public control::RpcModule {
 public:
  std::unique_ptr<control::RpcServer> serve(const std::string& address,
                                            control::RpcHandler handler) override {
    auto server = std::make_unique<Server>(address, std::move(handler));
    if (!server->listens()) return nullptr;
    return server;
  }

  control::RpcReply call(const std::string& address, const std::string& method,
                         const std::string& request, std::chrono::milliseconds deadline) override {
    grpc::GenericStub stub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + deadline);
    grpc::CompletionQueue queue;
    const auto call = stub.PrepareUnaryCall(&context, method, to_buffer(request), &queue);
    call->StartCall();
    grpc::ByteBuffer answer;
    grpc::Status status;
    call->Finish(&answer, &status, this);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    if (!status.ok()) return {false, status.error_message()};
    return {true, to_text(answer)};
  }
};

}  // namespace
}  // namespace craton::app

extern "C" __attribute__((visibility("default"))) craton::control::RpcModule* craton_rpc_module() {
  static craton::app::Module module;
  return &module;
}
