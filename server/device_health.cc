#include "server/device_health.h"

#include <spdlog/spdlog.h>

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/time/time.h"

namespace kiln::server {
namespace {

constexpr absl::Duration kPeriod = absl::Milliseconds(250);

}  // namespace

DeviceHealth::DeviceHealth(absl::Span<const std::unique_ptr<runtime::hal::Device>> devices,
                           grpc::HealthCheckServiceInterface& service, std::shared_ptr<spdlog::logger> log)
    : devices_(devices), service_(service), log_(std::move(log)) {
  for (const auto& device : devices_) {
    serving_.push_back(device->health().ok());
    service_.SetServingStatus(std::string(device->name()), serving_.back());
  }
  thread_ = std::thread([this] { LookUntilStopped(); });
}

DeviceHealth::~DeviceHealth() {
  bell_.Ring();
  thread_.join();
}

void DeviceHealth::LookUntilStopped() {
  while (!bell_.Wait(kPeriod)) {
    for (size_t i = 0; i < devices_.size(); ++i) {
      const absl::Status health = devices_[i]->health();
      const bool serving = health.ok();
      if (serving == serving_[i]) continue;
      serving_[i] = serving;
      if (!serving)
        log_->error("event=device_lost device={} reason=\"{}\"", std::string(devices_[i]->name()),
                    absl::CEscape(health.message()));
      service_.SetServingStatus(std::string(devices_[i]->name()), serving);
    }
  }
}

}  // namespace kiln::server
