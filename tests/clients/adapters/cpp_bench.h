// What the C++ adapter measures: a client's calls, and the same by gRPC alone, with the protocol's messages.
#ifndef KILN_TESTS_CLIENTS_ADAPTERS_CPP_BENCH_H_
#define KILN_TESTS_CLIENTS_ADAPTERS_CPP_BENCH_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cpp/client.h"
#include "kiln/v1/graph.pb.h"

namespace kiln::adapter {

class Measures {
 public:
  struct Graphs {
    v1::Graph affine, counting, large;
  };
  // Connects to a server, and prepares all that is measured; transfers are of so many bytes.
  static absl::StatusOr<std::unique_ptr<Measures>> Prepare(const std::string& address, uint64_t bytes, Graphs graphs);
  ~Measures();

  // How long it takes, `count` times: "execute", "submit", "upload", "download" or "hash".
  absl::StatusOr<double> Seconds(const std::string& what, bool bare, int64_t count);

 private:
  struct Bare;
  Measures();
  absl::Status Connect(const std::string& address, Graphs graphs);
  absl::Status ConnectBare(const std::string& address);

  absl::Status Many(const std::string& what, bool bare, int64_t count);
  absl::Status Once(const std::string& what);
  absl::Status Submit(int64_t count);

  // Of what is destroyed, the stream and the buffers come first.
  std::unique_ptr<client::Client> client_;
  std::unique_ptr<client::Stream> stream_;
  std::optional<client::Program> program_, step_;
  v1::BufferRef counter_;
  client::DeviceBuffer block_;
  client::HostTensor x_;
  v1::Graph large_;
  std::string data_;
  std::unique_ptr<Bare> bare_;
};

}  // namespace kiln::adapter

#endif  // KILN_TESTS_CLIENTS_ADAPTERS_CPP_BENCH_H_
