// The channel to one server, and what all calls have in common: deadlines,
// errors with their details, counted bytes, and handles given back in batches.
// Clients, buffers and programs share one Connection and keep it alive.
//
// Threads: every method may be called from any thread.
#ifndef KILN_CLIENT_CPP_TRANSPORT_CONNECTION_H_
#define KILN_CLIENT_CPP_TRANSPORT_CONNECTION_H_

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "kiln/v1/buffer_service.grpc.pb.h"
#include "kiln/v1/collective_service.grpc.pb.h"
#include "kiln/v1/debug_service.grpc.pb.h"
#include "kiln/v1/device_service.grpc.pb.h"
#include "kiln/v1/kernel_service.grpc.pb.h"
#include "kiln/v1/session_service.grpc.pb.h"

namespace kiln::client {

struct ClientOptions {
  // Where graphs are compiled and buffers allocated; empty: the server's first.
  std::string device;
  // How long Connect waits for the server.
  absl::Duration connect_timeout = absl::Seconds(10);
  // How long any one call may take.
  absl::Duration call_timeout = absl::InfiniteDuration();
  // Whether data moves through memory shared with the server, where it offers that.
  bool shared_memory = true;
};

// Bytes of messages, without what HTTP/2 adds.
struct Traffic {
  uint64_t calls = 0;
  uint64_t sent_bytes = 0;
  uint64_t received_bytes = 0;
};

class Connection {
 public:
  Connection(std::string target, ClientOptions options);
  // Gives the last handles back.
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // UNAVAILABLE, saying what to do, unless the server answers in time.
  absl::Status WaitUntilReady();

  // Whether a connection stands, or does within `timeout`.
  bool IsReachable(absl::Duration timeout);

  // One unary call: `method` is of the stub that `stub` names.
  template <typename Interface, typename Stub, typename Request, typename Response>
  absl::Status Call(const std::unique_ptr<Interface>& stub,
                    grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*), const char* name,
                    const Request& request, Response* response) {
    grpc::ClientContext context;
    Prepare(context);
    const grpc::Status status = (stub.get()->*method)(&context, request, response);
    Count(name, 1, request.ByteSizeLong(), status.ok() ? response->ByteSizeLong() : 0);
    return Convert(status);
  }

  // For streaming calls, which do the above themselves.
  void Prepare(grpc::ClientContext& context) const;
  void Count(const char* name, uint64_t calls, uint64_t sent, uint64_t received);
  absl::Status Convert(const grpc::Status& status) const;

  // Gives a handle back, at the latest when `bytes` or handles have piled up, or
  // with the connection.
  void FreeLater(uint64_t handle, uint64_t bytes);
  // Gives all such handles back now.
  void FlushFrees();

  // By RPC name.
  std::map<std::string, Traffic> traffic() const;
  const ClientOptions& options() const { return options_; }
  const std::string& target() const { return target_; }

  std::unique_ptr<v1::KernelService::Stub> kernels;
  std::unique_ptr<v1::BufferService::Stub> buffers;
  std::unique_ptr<v1::DeviceService::Stub> devices;
  std::unique_ptr<v1::DebugService::Stub> debug;
  std::unique_ptr<v1::CollectiveService::Stub> collectives;
  std::unique_ptr<v1::SessionService::Stub> sessions;
  std::unique_ptr<grpc::health::v1::Health::Stub> health;
  // For messages that are bytes (raw_call.h).
  std::unique_ptr<grpc::GenericStub> raw;

 private:
  const std::string target_;
  const ClientOptions options_;
  std::shared_ptr<grpc::Channel> channel_;

  mutable absl::Mutex mutex_;
  std::map<std::string, Traffic> traffic_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint64_t> freed_ ABSL_GUARDED_BY(mutex_);
  uint64_t freed_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace kiln::client

#endif  // KILN_CLIENT_CPP_TRANSPORT_CONNECTION_H_
