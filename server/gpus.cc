#include "server/gpus.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "runtime/drivers/cuda/devices.h"
#include "runtime/drivers/hip/devices.h"

namespace kiln::server {
namespace {

using runtime::gpu::DeviceOptions;
using runtime::gpu::Found;

struct Driver {
  const char* kind;
  const char* collectives;
  Found (*find)(const DeviceOptions& options);
};
constexpr Driver kDrivers[] = {
    {"CUDA", "NCCL", [](const DeviceOptions& options) { return runtime::cuda::FindDevices({.device = options}); }},
    {"HIP", "RCCL", [](const DeviceOptions& options) { return runtime::hip::FindDevices({.device = options}); }},
};

// Kinds that must be there. CheckConfig has passed the setting.
std::vector<std::string> Wanted(absl::string_view gpus) {
  if (gpus == "auto" || gpus == "none") return {};
  std::vector<std::string> kinds = absl::StrSplit(gpus, ',');
  for (std::string& kind : kinds) kind = absl::AsciiStrToUpper(kind);
  return kinds;
}

bool Has(const std::vector<std::string>& kinds, const char* kind) {
  return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

}  // namespace

absl::Status OpenGpus(const v1::ServerConfig& config, std::vector<std::unique_ptr<runtime::hal::Device>>& devices,
                      std::vector<v1::AbsentDevices>& absent) {
  const std::vector<std::string> wanted = Wanted(config.gpus());
  DeviceOptions options;
  if (config.gpu_memory_percent() != 0) options.memory_percent = config.gpu_memory_percent();
  for (const Driver& driver : kDrivers) {
    Found found;
    if (config.gpus() == "none" || (!wanted.empty() && !Has(wanted, driver.kind))) {
      found.absent.push_back(absl::StrCat("the server was started with --gpus=", config.gpus()));
    } else {
      found = driver.find(options);
    }
    if (found.devices.empty() && Has(wanted, driver.kind)) {
      return absl::UnavailableError(absl::StrCat("--gpus=", config.gpus(), " wants ", driver.kind,
                                                 " devices, and there are none: ", absl::StrJoin(found.absent, "; ")));
    }
    for (auto& device : found.devices) devices.push_back(std::move(device));
    if (!found.no_collectives.empty()) {
      v1::AbsentDevices& row = absent.emplace_back();
      row.set_kind(driver.collectives);
      row.set_reason(absl::StrCat(found.no_collectives, ": collectives of several cards go without it"));
    }
    for (std::string& reason : found.absent) {
      v1::AbsentDevices& row = absent.emplace_back();
      row.set_kind(driver.kind);
      row.set_reason(std::move(reason));
    }
  }
  return absl::OkStatus();
}

}  // namespace kiln::server
