// The devices of this process: those of every backend in backends.def, as the settings want them.
// Tested by config_test and tests/e2e/device_service_test.
#ifndef KILN_SERVER_BACKENDS_H_
#define KILN_SERVER_BACKENDS_H_

#include <spdlog/spdlog.h>

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "kiln/v1/config.pb.h"
#include "kiln/v1/device_service.pb.h"
#include "runtime/hal/device.h"

namespace kiln::server {

// Adds to `devices` those that `config` wants, and to `absent` the kinds of which there is
// none, or of which one cannot be used, with the reason. UNAVAILABLE with the reason if a kind
// that must be there is not; and whatever keeps the CPU's from being opened, or, in a job of
// several processes, from meeting the others.
absl::Status OpenBackends(const v1::ServerConfig& config, std::shared_ptr<spdlog::logger> log,
                          std::vector<std::unique_ptr<runtime::hal::Device>>& devices,
                          std::vector<v1::AbsentDevices>& absent);

}  // namespace kiln::server

#endif  // KILN_SERVER_BACKENDS_H_
