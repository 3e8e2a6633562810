// ServerReflection.ServerReflectionInfo: what services there are, for tools that have no .proto files.
//
// gRPC has a plugin for it, which answers whoever asks, and keeps a thread for each of its streams. This one passes
// Admit as all calls do. Tested by tests/e2e/reflection_test.cc.
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/error.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor.pb.h"
#include "grpc/reflection/v1alpha/reflection.pb.h"
#include "server/services/rpcs.h"

namespace kiln::server {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::FileDescriptor;
using grpc::reflection::v1alpha::ServerReflectionRequest;
using grpc::reflection::v1alpha::ServerReflectionResponse;

// The file and what it imports, each once.
void AddWithImports(const FileDescriptor& file, std::set<std::string>& names, ServerReflectionResponse& answer) {
  if (!names.insert(file.name()).second) return;
  google::protobuf::FileDescriptorProto proto;
  file.CopyTo(&proto);
  *answer.mutable_file_descriptor_response()->add_file_descriptor_proto() = proto.SerializeAsString();
  for (int i = 0; i < file.dependency_count(); ++i) AddWithImports(*file.dependency(i), names, answer);
}

void Answer(const ServerReflectionRequest& request, ServerReflectionResponse& answer) {
  const DescriptorPool& pool = *DescriptorPool::generated_pool();
  const FileDescriptor* file = nullptr;
  switch (request.message_request_case()) {
    case ServerReflectionRequest::kListServices: {
      std::set<std::string> names = {"grpc.health.v1.Health"};
      for (const RpcRow& row : RpcRows()) names.insert(absl::StrCat(row.package, ".", row.service));
      for (const std::string& name : names) answer.mutable_list_services_response()->add_service()->set_name(name);
      return;
    }
    case ServerReflectionRequest::kFileByFilename: file = pool.FindFileByName(request.file_by_filename()); break;
    case ServerReflectionRequest::kFileContainingSymbol:
      file = pool.FindFileContainingSymbol(request.file_containing_symbol());
      break;
    // The protocol has no extensions.
    case ServerReflectionRequest::kFileContainingExtension:
    case ServerReflectionRequest::kAllExtensionNumbersOfType:
    case ServerReflectionRequest::MESSAGE_REQUEST_NOT_SET: break;
  }
  if (file != nullptr) {
    std::set<std::string> names;
    return AddWithImports(*file, names, answer);
  }
  answer.mutable_error_response()->set_error_code(grpc::StatusCode::NOT_FOUND);
  answer.mutable_error_response()->set_error_message("there is nothing of this name");
}

// Reads a request, answers it, and only then reads the next. The lock is for the end, which may come meanwhile.
class ReflectionStream final : public StreamReactor, public Gate::Watcher {
 public:
  explicit ReflectionStream(Admitted admitted) : admitted_(std::make_unique<const Admitted>(std::move(admitted))) {}

  void Start(std::shared_ptr<ReflectionStream> self) {
    self_ = std::move(self);
    auto charge = Hold(admitted_->account(), Quota::kStreams, 1);
    {
      absl::MutexLock lock(&mutex_);
      if (!charge.ok()) return End(charge.status());
      charge_ = *std::move(charge);
      Read();
    }
    admitted_->env().gate.Watch(self_);
  }

  void OnClosing() override {
    absl::MutexLock lock(&mutex_);
    closing_ = true;
    if (reading_ && !ended_) End(ShuttingDown());
  }

 private:
  static absl::Status Cancelled() { return MakeError(v1::CALL_CANCELLED, "the call was cancelled"); }

  absl::Status Take(ServerReflectionRequest& request) {
    KILN_RETURN_IF_ERROR(Spend(admitted_->account(), Quota::kRequests, 1));
    KILN_RETURN_IF_ERROR(CheckSmall(incoming_));
    return Decode(incoming_, LimitsOf(admitted_->env()), request);
  }

  void OnReadDone(bool ok) override {
    absl::MutexLock lock(&mutex_);
    reading_ = false;
    if (ended_) return;
    if (!ok) return End(absl::OkStatus());
    CountReceived(*admitted_, incoming_);
    ServerReflectionRequest request;
    if (absl::Status taken = Take(request); !taken.ok()) return End(taken);
    ServerReflectionResponse answer;
    answer.set_valid_host(request.host());
    Answer(request, answer);
    *answer.mutable_original_request() = std::move(request);
    if (absl::Status encoded = Encode(answer, outgoing_); !encoded.ok()) return End(encoded);
    CountSent(*admitted_, outgoing_);
    StartWrite(&outgoing_);
  }

  void OnWriteDone(bool ok) override {
    absl::MutexLock lock(&mutex_);
    outgoing_.Clear();
    if (!ok) return End(MakeError(v1::CALL_CANCELLED, "the connection is gone"));
    if (closing_) return End(ShuttingDown());
    if (cancelled_) return End(Cancelled());
    Read();
  }

  void OnCancel() override {
    absl::MutexLock lock(&mutex_);
    cancelled_ = true;
    if (reading_ && !ended_) End(Cancelled());
  }

  void OnEnd() override {
    charge_.Release();
    admitted_.reset();
    self_.reset();  // and with it, perhaps, this
  }

  void Read() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    reading_ = true;
    StartRead(&incoming_);
  }

  void End(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    ended_ = true;
    FinishWith(*this, *admitted_, status);
  }

  std::unique_ptr<const Admitted> admitted_;
  std::shared_ptr<ReflectionStream> self_;
  Charge charge_;
  grpc::ByteBuffer incoming_, outgoing_;  // of the request at hand

  absl::Mutex mutex_;
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace

StreamReactor* rpc::ServerReflection::ServerReflectionInfo(Admitted admitted) {
  auto call = std::make_shared<ReflectionStream>(std::move(admitted));
  ReflectionStream* const reactor = call.get();
  reactor->Start(std::move(call));
  return reactor;
}

}  // namespace kiln::server
