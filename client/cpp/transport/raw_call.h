// A streaming call of bytes as they travel: no message is made of them.
//
// What is large must not be copied into a protobuf message and out of it again. Such a
// call frames its messages itself.
#ifndef KILN_CLIENT_CPP_TRANSPORT_RAW_CALL_H_
#define KILN_CLIENT_CPP_TRANSPORT_RAW_CALL_H_

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <memory>

namespace kiln::client {

// One call, of one thread. Every method blocks until it is done. Finish() has to be
// called, once, before it is destroyed.
class RawCall {
 public:
  // `method` is a path: "/kiln.v1.BufferService/Write". `context` outlives the call.
  RawCall(grpc::GenericStub& stub, grpc::ClientContext& context, const char* method);
  ~RawCall();
  RawCall(const RawCall&) = delete;
  RawCall& operator=(const RawCall&) = delete;

  // False: the call has ended; Finish() says why. `message` is shared with gRPC until
  // the last of its slices is released.
  bool Write(const grpc::ByteBuffer& message);
  bool WritesDone();
  bool Read(grpc::ByteBuffer& message);
  grpc::Status Finish();

 private:
  bool Wait();

  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
};

}  // namespace kiln::client

#endif  // KILN_CLIENT_CPP_TRANSPORT_RAW_CALL_H_
