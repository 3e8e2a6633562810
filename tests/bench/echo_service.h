// The least a gRPC service can do: one unary method that answers with what it
// got. What is slower than this is Kiln's own.
#ifndef KILN_TESTS_BENCH_ECHO_SERVICE_H_
#define KILN_TESTS_BENCH_ECHO_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

namespace kiln::bench {

// A server like kilnd's (callback API, loopback, insecure) with that one method.
class EchoServer {
 public:
  EchoServer();
  ~EchoServer();
  std::string address() const { return address_; }

 private:
  std::unique_ptr<grpc::Service> service_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

// One blocking call. OK means that `request` came back.
grpc::Status Echo(grpc::Channel& channel, const grpc::ByteBuffer& request);

}  // namespace kiln::bench

#endif  // KILN_TESTS_BENCH_ECHO_SERVICE_H_
