// gRPC's health service: whether the server, or a device by its name, serves. It asks nobody who they are, so that a
// balancer needs no secret; therefore what it keeps for each caller is little, and counted.
//
// gRPC has one of its own, which lets whoever reaches the port have any number of Watch calls. Tested by
// tests/e2e/device_service_test.cc, tests/e2e/reflection_test.cc and tests/hostile/attacks_unknown.py.
#ifndef KILN_SERVER_SERVICES_HEALTH_H_
#define KILN_SERVER_SERVICES_HEALTH_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <cstddef>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "grpc/health/v1/health.grpc.pb.h"

namespace kiln::server {

// Of whoever calls, the address without the port: "ipv4:10.0.0.7". All of this machine's sockets are "unix".
std::string AddressOfPeer(absl::string_view peer);

// Safe from any thread; outlives the server that it is registered with. What is not said to serve, or not to, is
// unknown; the server as a whole, whose name is empty, serves until it is said that it does not.
class HealthService final : public grpc::HealthCheckServiceInterface {
 public:
  // Watch calls of one address, and of all.
  static constexpr size_t kWatchesOfAddress = 256, kWatches = 4096;
  // A longer name is nobody's.
  static constexpr size_t kMaxName = 256;

  HealthService();
  ~HealthService() override;

  grpc::Service& service() { return *service_; }

  void SetServingStatus(const std::string& name, bool serving) override;
  // Of all that are known.
  void SetServingStatus(bool serving) override;
  // None serves from now on, whatever is said later.
  void Shutdown() override;

 private:
  class Rpcs;
  class Watch;
  using Status = grpc::health::v1::HealthCheckResponse::ServingStatus;

  Status StatusOf(const std::string& name) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TellAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::unique_ptr<grpc::Service> service_;
  absl::Mutex mutex_;
  bool shut_ ABSL_GUARDED_BY(mutex_) = false;
  absl::flat_hash_map<std::string, bool> serving_ ABSL_GUARDED_BY(mutex_);
  std::set<Watch*> watches_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, size_t> of_address_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kiln::server

#endif  // KILN_SERVER_SERVICES_HEALTH_H_
