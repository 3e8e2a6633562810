// Between gRPC and a Capture: which calls, and what of them.
//
// A token opens a session to whoever has it, so none goes into the file: the session's
// number stands in its place, wherever the protocol has tokens.
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_replace.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"
#include "kiln/v1/kernel_service.pb.h"
#include "kiln/v1/session_service.pb.h"
#include "server/capture/capture.h"
#include "server/engine/memory/session.h"

namespace kiln::server {
namespace {

using grpc::experimental::InterceptionHookPoints;

// Takes tokens out of a message.
using Scrub = void (*)(Capture& capture, std::string& message);

std::string Number(Capture& capture, const std::string& token) {
  if (token.empty()) return "";
  const uint64_t number = capture.SessionNumber(token);
  std::string bytes(sizeof number, '\0');
  std::memcpy(bytes.data(), &number, sizeof number);
  return bytes;
}

// What is no message of its type has nothing that a play could use; but it may have a token.
template <typename Message, typename Body>
void Rewrite(std::string& bytes, Body body) {
  Message message;
  if (!message.ParseFromString(bytes)) return bytes.clear();
  body(message);
  bytes = message.SerializeAsString();
}

// Whether there is a hello in what may be a SubmitRequest; without reading commands, which
// may be long, or of what is no message.
bool MayGreet(const std::string& bytes) {
  using google::protobuf::internal::WireFormatLite;
  google::protobuf::io::CodedInputStream input(reinterpret_cast<const uint8_t*>(bytes.data()),
                                               static_cast<int>(bytes.size()));
  while (const uint32_t tag = input.ReadTag()) {
    if (WireFormatLite::GetTagFieldNumber(tag) == v1::SubmitRequest::kHelloFieldNumber) return true;
    if (!WireFormatLite::SkipField(&input, tag)) return true;
  }
  return !input.ConsumedEntireMessage();
}

void ScrubOpen(Capture& capture, std::string& bytes) {
  Rewrite<v1::OpenSessionRequest>(
      bytes, [&](auto& message) { message.set_resume_token(Number(capture, message.resume_token())); });
}
void ScrubOpened(Capture& capture, std::string& bytes) {
  Rewrite<v1::OpenSessionResponse>(bytes, [&](auto& message) {
    capture.SessionOpened(message.token());
    message.set_token(Number(capture, message.token()));
  });
}
void ScrubClose(Capture& capture, std::string& bytes) {
  Rewrite<v1::CloseSessionRequest>(bytes, [&](auto& message) {
    const std::string token = message.token();
    message.set_token(Number(capture, token));
    capture.SessionClosed(token);
  });
}
// A stream's first message, and what is in its place later.
void ScrubHello(Capture& capture, std::string& bytes) {
  if (!MayGreet(bytes)) return;
  Rewrite<v1::SubmitRequest>(bytes, [&](auto& message) {
    if (!message.has_hello()) return;
    message.mutable_hello()->set_session_token(Number(capture, message.hello().session_token()));
  });
}

// A call that changes something, or shows what others changed.
struct Row {
  const char* method;
  Scrub received = nullptr;
  Scrub sent = nullptr;
};
constexpr Row kCaptured[] = {
    {"KernelService.Compile"},
    {"KernelService.Execute"},
    {"KernelService.Submit", ScrubHello},
    {"KernelService.RecordSequence"},
    {"KernelService.ReplaySequence"},
    {"BufferService.Allocate"},
    {"BufferService.Write"},
    {"BufferService.Read"},
    {"BufferService.Copy"},
    {"BufferService.Fill"},
    {"BufferService.View"},
    {"BufferService.Free"},
    {"BufferService.Load"},
    {"CollectiveService.Broadcast"},
    {"CollectiveService.Scatter"},
    {"CollectiveService.Gather"},
    {"CollectiveService.Reduce"},
    {"CollectiveService.AllGather"},
    {"CollectiveService.ReduceScatter"},
    {"CollectiveService.AllReduce"},
    {"SessionService.Open", ScrubOpen, ScrubOpened},
    {"SessionService.Close", ScrubClose},
};

std::string BytesOf(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string bytes;
  bytes.reserve(buffer.Length());
  if (!buffer.Dump(&slices).ok()) return bytes;
  for (const grpc::Slice& slice : slices) bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return bytes;
}

// One call. gRPC may call it from several threads, but for each direction from one at a time.
class Tap final : public grpc::experimental::Interceptor {
 public:
  Tap(std::shared_ptr<Capture> capture, const CapturedCallerFn& caller, const grpc::ServerContextBase& context,
      const Row& row)
      : capture_(std::move(capture)), caller_(caller), context_(context), row_(row) {}
  ~Tap() override {
    if (!ended_) capture_->End(call_, grpc::Status(grpc::StatusCode::CANCELLED, ""));
  }

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::POST_RECV_INITIAL_METADATA)) {
      const auto& metadata = *methods->GetRecvInitialMetadata();
      const auto token = metadata.find(kSessionHeader);
      if (const std::optional<std::string> caller = caller_(context_); caller.has_value()) {
        call_ =
            capture_->Begin(*caller, row_.method,
                            token == metadata.end() ? absl::string_view()
                                                    : absl::string_view(token->second.data(), token->second.size()));
      }
    }
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::POST_RECV_MESSAGE)) {
      // Services take their messages as bytes.
      const auto* message = static_cast<const grpc::ByteBuffer*>(methods->GetRecvMessage());
      if (message != nullptr && call_.on()) {
        std::string bytes = BytesOf(*message);
        if (row_.received != nullptr) row_.received(*capture_, bytes);
        capture_->Received(call_, std::move(bytes));
      }
    }
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_MESSAGE)) {
      grpc::ByteBuffer* message = call_.on() ? methods->GetSerializedSendMessage() : nullptr;
      if (message != nullptr) {
        std::string bytes = BytesOf(*message);
        if (row_.sent != nullptr) row_.sent(*capture_, bytes);
        capture_->Sent(call_, std::move(bytes));
      }
    }
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS)) {
      ended_ = true;
      capture_->End(call_, methods->GetSendStatus());
    }
    methods->Proceed();
  }

 private:
  const std::shared_ptr<Capture> capture_;
  const CapturedCallerFn& caller_;
  const grpc::ServerContextBase& context_;
  const Row& row_;
  Capture::Call call_;
  bool ended_ = false;
};

class Taps final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  Taps(std::shared_ptr<Capture> capture, CapturedCallerFn caller)
      : capture_(std::move(capture)), caller_(std::move(caller)) {
    for (const Row& row : kCaptured) {
      rows_.emplace("/kiln.v1." + absl::StrReplaceAll(row.method, {{".", "/"}}), &row);
    }
  }
  grpc::experimental::Interceptor* CreateServerInterceptor(grpc::experimental::ServerRpcInfo* info) override {
    const auto row = rows_.find(info->method());
    return row == rows_.end() ? nullptr : new Tap(capture_, caller_, *info->server_context(), *row->second);
  }

 private:
  const std::shared_ptr<Capture> capture_;
  const CapturedCallerFn caller_;
  absl::flat_hash_map<std::string, const Row*> rows_;
};

}  // namespace

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> CaptureCalls(std::shared_ptr<Capture> capture,
                                                                                    CapturedCallerFn caller) {
  return std::make_unique<Taps>(std::move(capture), std::move(caller));
}

}  // namespace kiln::server
