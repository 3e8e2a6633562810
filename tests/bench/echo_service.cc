#include "tests/bench/echo_service.h"

#include <grpcpp/impl/codegen/client_unary_call.h>
#include <grpcpp/impl/codegen/server_callback_handlers.h>
#include <grpcpp/impl/codegen/service_type.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace kiln::bench {
namespace {

constexpr char kMethod[] = "/kiln.bench.Echo/Echo";
constexpr char kStreamMethod[] = "/kiln.bench.Echo/Stream";
constexpr char kSinkMethod[] = "/kiln.bench.Echo/Sink";
constexpr char kSourceMethod[] = "/kiln.bench.Echo/Source";

// Sends each message back, in order: the next is read when the last has been written.
class EchoReactor final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  EchoReactor() { StartRead(&message_); }
  void OnReadDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::OK);
    StartWrite(&message_);
  }
  void OnWriteDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::CANCELLED);
    StartRead(&message_);
  }
  void OnDone() override { delete this; }

 private:
  grpc::ByteBuffer message_;
};

// Reads all there is and lets it go; then one empty message.
class SinkReactor final : public grpc::ServerReadReactor<grpc::ByteBuffer> {
 public:
  explicit SinkReactor(grpc::ByteBuffer* answer) {
    const grpc::Slice nothing;
    *answer = grpc::ByteBuffer(&nothing, 1);
    StartRead(&message_);
  }
  void OnReadDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::OK);
    message_.Clear();
    StartRead(&message_);
  }
  void OnDone() override { delete this; }

 private:
  grpc::ByteBuffer message_;
};

// Sends `data` in messages of kSourceBytes.
class SourceReactor final : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
 public:
  explicit SourceReactor(const std::string& data) : data_(data) { OnWriteDone(true); }
  void OnWriteDone(bool ok) override {
    if (!ok || sent_ == data_.size()) return Finish(ok ? grpc::Status::OK : grpc::Status::CANCELLED);
    const size_t size = std::min<size_t>(data_.size() - sent_, kSourceBytes);
    const grpc::Slice slice(&data_[sent_], size, grpc::Slice::STATIC_SLICE);
    sent_ += size;
    message_ = grpc::ByteBuffer(&slice, 1);
    StartWrite(&message_);
  }
  void OnDone() override { delete this; }

 private:
  const std::string& data_;
  size_t sent_ = 0;
  grpc::ByteBuffer message_;
};

// Written by hand, as the generator would, since the method has no message type.
class EchoService final : public grpc::Service {
 public:
  explicit EchoService(const std::string& data) {
    AddMethod(new grpc::internal::RpcServiceMethod(kMethod, grpc::internal::RpcMethod::NORMAL_RPC, nullptr));
    MarkMethodRawCallback(
        0, new grpc::internal::CallbackUnaryHandler<grpc::ByteBuffer, grpc::ByteBuffer>(
               [](grpc::CallbackServerContext* context, const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
                 *response = *request;
                 grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
                 reactor->Finish(grpc::Status::OK);
                 return reactor;
               }));
    AddMethod(new grpc::internal::RpcServiceMethod(kStreamMethod, grpc::internal::RpcMethod::BIDI_STREAMING, nullptr));
    MarkMethodRawCallback(1, new grpc::internal::CallbackBidiHandler<grpc::ByteBuffer, grpc::ByteBuffer>(
                                 [](grpc::CallbackServerContext*) { return new EchoReactor(); }));
    AddMethod(new grpc::internal::RpcServiceMethod(kSinkMethod, grpc::internal::RpcMethod::CLIENT_STREAMING, nullptr));
    MarkMethodRawCallback(
        2, new grpc::internal::CallbackClientStreamingHandler<grpc::ByteBuffer, grpc::ByteBuffer>(
               [](grpc::CallbackServerContext*, grpc::ByteBuffer* answer) { return new SinkReactor(answer); }));
    AddMethod(
        new grpc::internal::RpcServiceMethod(kSourceMethod, grpc::internal::RpcMethod::SERVER_STREAMING, nullptr));
    MarkMethodRawCallback(
        3, new grpc::internal::CallbackServerStreamingHandler<grpc::ByteBuffer, grpc::ByteBuffer>(
               [&data](grpc::CallbackServerContext*, const grpc::ByteBuffer*) { return new SourceReactor(data); }));
  }
};

}  // namespace

EchoServer::EchoServer(std::string data) : data_(std::move(data)), service_(std::make_unique<EchoService>(data_)) {
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(service_.get());
  server_ = builder.BuildAndStart();
  KILN_CHECK(server_ != nullptr);
  address_ = "127.0.0.1:" + std::to_string(port);
}

EchoServer::~EchoServer() { server_->Shutdown(); }

grpc::Status Echo(grpc::Channel& channel, const grpc::ByteBuffer& request) {
  static const grpc::internal::RpcMethod method(kMethod, grpc::internal::RpcMethod::NORMAL_RPC);
  grpc::ClientContext context;
  grpc::ByteBuffer response;
  const grpc::Status status = grpc::internal::BlockingUnaryCall<grpc::ByteBuffer, grpc::ByteBuffer>(
      &channel, method, &context, request, &response);
  if (status.ok() && response.Length() != request.Length()) return grpc::Status(grpc::INTERNAL, "another length");
  return status;
}

std::unique_ptr<RawStream> OpenRaw(grpc::Channel& channel, const char* method, grpc::ClientContext& context) {
  const grpc::internal::RpcMethod rpc(method, grpc::internal::RpcMethod::BIDI_STREAMING);
  return std::unique_ptr<RawStream>(
      grpc::internal::ClientReaderWriterFactory<grpc::ByteBuffer, grpc::ByteBuffer>::Create(&channel, rpc, &context));
}

std::unique_ptr<RawStream> OpenSink(grpc::Channel& channel, grpc::ClientContext& context) {
  return OpenRaw(channel, kSinkMethod, context);
}

std::unique_ptr<RawStream> OpenSource(grpc::Channel& channel, grpc::ClientContext& context) {
  return OpenRaw(channel, kSourceMethod, context);
}

std::unique_ptr<RawStream> OpenEcho(grpc::Channel& channel, grpc::ClientContext& context) {
  return OpenRaw(channel, kStreamMethod, context);
}

}  // namespace kiln::bench
