// The least a gRPC service can do: a unary method and a stream that answer with what
// they got, one that takes and one that gives. What is slower than this is Kiln's own.
#ifndef KILN_TESTS_BENCH_ECHO_SERVICE_H_
#define KILN_TESTS_BENCH_ECHO_SERVICE_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/sync_stream.h>

#include <memory>
#include <string>

namespace kiln::bench {

// A server like kilnd's: callback API, loopback, insecure.
class EchoServer {
 public:
  // `data` is what its source gives.
  explicit EchoServer(std::string data = {});
  ~EchoServer();
  std::string address() const { return address_; }

 private:
  const std::string data_;
  std::unique_ptr<grpc::Service> service_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

// One blocking call. OK means that `request` came back.
grpc::Status Echo(grpc::Channel& channel, const grpc::ByteBuffer& request);

// A bidirectional stream of bytes, blocking: of the echo, or of any method by its path.
using RawStream = grpc::ClientReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;
std::unique_ptr<RawStream> OpenEcho(grpc::Channel& channel, grpc::ClientContext& context);
// The same for data: takes all there is and answers with an empty message; sends what the
// server has, in messages of kSourceBytes, whatever the first message says.
inline constexpr uint64_t kSourceBytes = 1 << 20;
std::unique_ptr<RawStream> OpenSink(grpc::Channel& channel, grpc::ClientContext& context);
std::unique_ptr<RawStream> OpenSource(grpc::Channel& channel, grpc::ClientContext& context);
std::unique_ptr<RawStream> OpenRaw(grpc::Channel& channel, const char* method, grpc::ClientContext& context);

}  // namespace kiln::bench

#endif  // KILN_TESTS_BENCH_ECHO_SERVICE_H_
