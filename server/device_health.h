// What grpc.health.v1 says of each device: SERVING by the device's name until it is lost.
//
// A thread of its own looks, a few times a second: devices say how they are, but not when
// that changes.
#ifndef KILN_SERVER_DEVICE_HEALTH_H_
#define KILN_SERVER_DEVICE_HEALTH_H_

#include <grpcpp/health_check_service_interface.h>
#include <spdlog/fwd.h>

#include <memory>
#include <thread>
#include <vector>

#include "absl/types/span.h"
#include "base/clock.h"
#include "runtime/hal/device.h"

namespace kiln::server {

class DeviceHealth {
 public:
  // All devices have their status once this returns. They and `service` outlive this. `log` hears of each that
  // is lost.
  DeviceHealth(absl::Span<const std::unique_ptr<runtime::hal::Device>> devices,
               grpc::HealthCheckServiceInterface& service, std::shared_ptr<spdlog::logger> log);
  ~DeviceHealth();
  DeviceHealth(const DeviceHealth&) = delete;
  DeviceHealth& operator=(const DeviceHealth&) = delete;

 private:
  void LookUntilStopped();

  const absl::Span<const std::unique_ptr<runtime::hal::Device>> devices_;
  grpc::HealthCheckServiceInterface& service_;
  const std::shared_ptr<spdlog::logger> log_;
  std::vector<bool> serving_;  // as last told
  Bell bell_;                  // rings for the end
  std::thread thread_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_DEVICE_HEALTH_H_
