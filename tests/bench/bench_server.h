// What measurements of a server have in common: the server, in this process, the least
// program there is, and times.
#ifndef KILN_TESTS_BENCH_BENCH_SERVER_H_
#define KILN_TESTS_BENCH_BENCH_SERVER_H_

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kiln/v1/graph.pb.h"
#include "server/server.h"

namespace kiln::bench {

// x += 1 for float32 [64] in slot 0, in place: nothing to allocate, nothing to send back.
inline constexpr char kTiny[] = R"(
  0 CONST [] weakint 64
  1 PARAM : float32 [0] slot=0
  2 CONST [] float32 1.0
  3 ADD [1, 2]
  4 STORE [1, 3]
  5 AFTER [1, 4]
  6 TUPLE [5]
)";
inline constexpr uint64_t kTinyBytes = 256;

double SecondsSince(std::chrono::steady_clock::time_point begin);

// The one that so many of the values, which are not none, do not exceed: 0.5, the median.
double Percentile(std::vector<double> values, double p);

// As one message.
grpc::ByteBuffer ToMessage(const std::string& bytes);

// To the file, unless `path` is empty; the exit code of a bench.
int WriteReport(const nlohmann::json& report, const std::string& path);

// A channel with a connection of its own.
std::shared_ptr<grpc::Channel> ChannelTo(const std::string& address);

// As kilnd is by default, on a free port of loopback, and says nothing; with so much memory
// to share.
class BenchServer {
 public:
  explicit BenchServer(uint64_t shared_memory_bytes = 0);
  // As `config` says, on such a port. `worker` is as StartServer's.
  explicit BenchServer(v1::ServerConfig config, const std::string& worker = "");
  const std::string& address() const { return address_; }
  server::RpcServer& server() { return *server_; }
  // The hash of a graph in its text form, compiled.
  std::string Compile(const char* text) const;

 private:
  std::unique_ptr<server::RpcServer> server_;
  std::string address_;
};

}  // namespace kiln::bench

#endif  // KILN_TESTS_BENCH_BENCH_SERVER_H_
