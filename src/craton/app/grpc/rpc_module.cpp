// The library behind control/rpc.h: gRPC calls and streams as bytes. It links nothing of Craton, so
// the descriptors of Craton's messages exist once in a process, in the program that loads this.

#include <grpcpp/create_channel.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include "craton/app/grpc/stream.h"
#include "craton/control/rpc.h"

namespace craton::app {
namespace {

constexpr int kLargestMessage = 64 << 20;

/// One call with one answer. Lives until gRPC is done with it.
class ServedCall : public grpc::ServerGenericBidiReactor {
 public:
  ServedCall(std::string method, const control::RpcHandlers& handlers)
      : method_(std::move(method)), handlers_(handlers) {
    StartRead(&request_);
  }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) {
      Finish({grpc::StatusCode::CANCELLED, ""});
      return;
    }
    handlers_.call(method_, to_text(request_), [this](const control::RpcReply& reply) {
      if (!reply.ok) {
        Finish({grpc::StatusCode::INVALID_ARGUMENT, reply.bytes});
        return;
      }
      answer_ = to_buffer(reply.bytes);
      StartWriteAndFinish(&answer_, {}, grpc::Status::OK);
    });
  }
  void OnDone() override { delete this; }

  const std::string method_;
  const control::RpcHandlers& handlers_;
  grpc::ByteBuffer request_, answer_;
};

class ServedStream : public grpc::ServerGenericBidiReactor {
 public:
  ServedStream(grpc::GenericCallbackServerContext* context, const control::RpcHandlers& handlers)
      : state_(std::make_shared<StreamState>(
            StreamState::Operations{[this](grpc::ByteBuffer* to) { StartRead(to); },
                                    [this](const grpc::ByteBuffer* from) { StartWrite(from); },
                                    [context] { context->TryCancel(); }},
            handlers.wake)) {
    StartSendInitialMetadata();
    state_->begin_reading();
    handlers.stream(std::make_unique<Stream>(state_));
  }

 private:
  void OnReadDone(bool ok) override { finish_if(state_->on_read(ok)); }
  void OnWriteDone(bool ok) override { finish_if(state_->on_write(ok)); }
  void OnCancel() override { finish_if(state_->on_lost()); }
  void OnDone() override { delete this; }
  void finish_if(bool last) {
    if (last) Finish(grpc::Status::OK);
  }

  const std::shared_ptr<StreamState> state_;
};

class Server : public control::RpcServer, private grpc::CallbackGenericService {
 public:
  Server(const std::vector<std::string>& addresses, control::RpcHandlers handlers)
      : handlers_(std::move(handlers)), ports_(addresses.size(), -1) {
    grpc::ServerBuilder builder;
    for (size_t k = 0; k < addresses.size(); ++k)
      builder.AddListeningPort(addresses[k], grpc::InsecureServerCredentials(), &ports_[k]);
    builder.SetMaxReceiveMessageSize(kLargestMessage);
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.RegisterCallbackGenericService(this);
    server_ = builder.BuildAndStart();
    for (size_t k = 0; k < addresses.size(); ++k)
      if (addresses[k].starts_with("unix:")) ports_[k] = 0;
  }

  ~Server() override {
    if (server_)
      server_->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
  }

  bool listens() const { return server_ != nullptr; }
  std::vector<int> ports() const override { return ports_; }

 private:
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    if (context->method() == handlers_.stream_method) return new ServedStream(context, handlers_);
    return new ServedCall(context->method(), handlers_);
  }

  const control::RpcHandlers handlers_;
  std::vector<int> ports_;
  std::unique_ptr<grpc::Server> server_;
};

/// The caller's end of a stream. Lives until gRPC is done with it.
class OpenedStream : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  OpenedStream(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
               std::function<void()> wake)
      : stub_(channel),
        state_(std::make_shared<StreamState>(
            StreamState::Operations{[this](grpc::ByteBuffer* to) { StartRead(to); },
                                    [this](const grpc::ByteBuffer* from) { StartWrite(from); },
                                    [this] { context_.TryCancel(); }},
            std::move(wake))) {
    stub_.PrepareBidiStreamingCall(&context_, method, {}, this);
    AddHold();  // what is sent later is started from outside
  }

  std::unique_ptr<control::RpcStream> start(std::shared_ptr<grpc::Channel> channel) {
    auto stream = std::make_unique<CallersStream>(state_, std::move(channel));
    state_->begin_reading();
    StartCall();
    return stream;
  }

 private:
  void OnReadDone(bool ok) override { let_go_if(state_->on_read(ok)); }
  void OnWriteDone(bool ok) override { let_go_if(state_->on_write(ok)); }
  void OnDone(const grpc::Status&) override {
    const auto state = state_;
    delete this;
    state->on_done();
  }
  void let_go_if(bool last) {
    if (last) RemoveHold();
  }

  grpc::ClientContext context_;
  grpc::GenericStub stub_;
  const std::shared_ptr<StreamState> state_;
};

std::shared_ptr<grpc::Channel> make_channel(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kLargestMessage);
  // Its own connection: one that failed before says nothing about this one.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

class Module : public control::RpcModule {
 public:
  std::unique_ptr<control::RpcServer> serve(const std::vector<std::string>& addresses,
                                            control::RpcHandlers handlers) override {
    auto server = std::make_unique<Server>(addresses, std::move(handlers));
    if (!server->listens()) return nullptr;
    return server;
  }

  control::RpcReply call(const std::string& address, const std::string& method,
                         const std::string& request, std::chrono::milliseconds deadline) override {
    grpc::GenericStub stub(make_channel(address));
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

  std::unique_ptr<control::RpcStream> open(const std::string& address, const std::string& method,
                                           std::chrono::milliseconds deadline,
                                           std::function<void()> wake) override {
    const auto channel = make_channel(address);
    if (!channel->WaitForConnected(std::chrono::system_clock::now() + deadline)) return nullptr;
    return (new OpenedStream(channel, method, std::move(wake)))->start(channel);
  }
};

}  // namespace
}  // namespace craton::app

extern "C" __attribute__((visibility("default"))) craton::control::RpcModule* craton_rpc_module() {
  static craton::app::Module module;
  return &module;
}
