#include "client/cpp/transport/raw_call.h"

#include "base/check.h"

namespace kiln::client {

RawCall::RawCall(grpc::GenericStub& stub, grpc::ClientContext& context, const char* method)
    : call_(stub.PrepareCall(&context, method, &queue_)) {
  call_->StartCall(this);
  Wait();  // a call that could not be started says so in Finish
}

RawCall::~RawCall() {
  queue_.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) {
  }
}

bool RawCall::Write(const grpc::ByteBuffer& message) {
  call_->Write(message, this);
  return Wait();
}

bool RawCall::WritesDone() {
  call_->WritesDone(this);
  return Wait();
}

bool RawCall::Read(grpc::ByteBuffer& message) {
  call_->Read(&message, this);
  return Wait();
}

grpc::Status RawCall::Finish() {
  grpc::Status status;
  call_->Finish(&status, this);
  KILN_CHECK(Wait());
  return status;
}

bool RawCall::Wait() {
  void* tag = nullptr;
  bool ok = false;
  KILN_CHECK(queue_.Next(&tag, &ok));
  return ok;
}

}  // namespace kiln::client
