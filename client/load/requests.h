// What the requests of a class are: made ready once, before the load begins.
#ifndef KILN_CLIENT_LOAD_REQUESTS_H_
#define KILN_CLIENT_LOAD_REQUESTS_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/client.h"
#include "client/load/mix.h"

namespace kiln::load {

// Of one class. Owns what its calls use on the server. One thread at a time.
class Requests {
 public:
  // Compiles the class' graph and uploads what it is called with, by `client`, which outlives this.
  static absl::StatusOr<Requests> Make(client::Client& client, const ClassSpec& spec, const std::string& device,
                                       uint64_t seed);

  // "/kiln.v1.KernelService/Execute"
  const char* method() const { return method_; }
  // Whether a call is a stream of messages to the server.
  bool streams() const { return messages_.size() > 1; }
  // What the next call sends: one message, or the stream's in order. Shares memory with the others.
  std::vector<grpc::ByteBuffer> Next();

 private:
  const char* method_ = nullptr;
  std::vector<grpc::ByteBuffer> messages_;
  std::vector<client::DeviceBuffer> buffers_;
  // Of a class that compiles: what is before, between and after the places of the number.
  std::vector<std::string> pieces_;
  std::string device_;
  uint64_t number_ = 0;
};

}  // namespace kiln::load

#endif  // KILN_CLIENT_LOAD_REQUESTS_H_
