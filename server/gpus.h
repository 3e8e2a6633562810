// The GPUs of this machine, as the settings want them.
#ifndef KILN_SERVER_GPUS_H_
#define KILN_SERVER_GPUS_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "kiln/v1/config.pb.h"
#include "kiln/v1/device_service.pb.h"
#include "runtime/hal/device.h"

namespace kiln::server {

// Adds to `devices` the GPUs that `config` wants, and to `absent` the kinds of which there is
// none, or of which one cannot be used, with the reason. UNAVAILABLE with the reason if a kind
// that must be there is not.
absl::Status OpenGpus(const v1::ServerConfig& config, std::vector<std::unique_ptr<runtime::hal::Device>>& devices,
                      std::vector<v1::AbsentDevices>& absent);

}  // namespace kiln::server

#endif  // KILN_SERVER_GPUS_H_
