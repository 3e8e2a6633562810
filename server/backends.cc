#include "server/backends.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "runtime/drivers/cpu/device.h"
#include "runtime/drivers/cuda/devices.h"
#include "runtime/drivers/hip/devices.h"
#include "server/cpu_core.h"
#include "server/job.h"

namespace kiln::server {
namespace {

using runtime::gpu::Found;
using Log = std::shared_ptr<spdlog::logger>;

// In a job, those of all its processes.
absl::StatusOr<Found> OpenCpu(const v1::ServerConfig& config, const Log& log) {
  Found found;
  runtime::cpu::DeviceOptions cpu = CpuOptions(config);
  KILN_ASSIGN_OR_RETURN(cpu.core, CoreOf(config, *log));
  KILN_ASSIGN_OR_RETURN(found.devices, runtime::cpu::CreateDevices(config.cpu_devices(), std::move(cpu)));
  if (!InJob(config)) return found;
  // Once: a second signal would mean now.
  const auto stopping = std::make_shared<std::atomic<bool>>(config.rank_death() != "stop");
  const auto died = [log, stopping](const absl::Status& why) {
    if (stopping->exchange(true)) return;
    log->error("event=stopping reason=\"{}\"", absl::CEscape(why.message()));
    kill(getpid(), SIGTERM);
  };
  KILN_RETURN_IF_ERROR(OpenJob(config, log, died, found.devices));
  return found;
}

runtime::gpu::DeviceOptions GpuOptions(const v1::ServerConfig& config) {
  runtime::gpu::DeviceOptions options;
  if (config.gpu_memory_percent() != 0) options.memory_percent = config.gpu_memory_percent();
  return options;
}

absl::StatusOr<Found> OpenCuda(const v1::ServerConfig& config, const Log&) {
  return runtime::cuda::FindDevices({.device = GpuOptions(config)});
}

absl::StatusOr<Found> OpenHip(const v1::ServerConfig& config, const Log&) {
  return runtime::hip::FindDevices({.device = GpuOptions(config)});
}

struct Backend {
  absl::string_view kind, word, collectives;
  absl::StatusOr<Found> (*open)(const v1::ServerConfig& config, const Log& log);
};
constexpr Backend kBackends[] = {
#define BACKEND(Name, kind, word, collectives) {kind, word, collectives, Open##Name},
#include "server/backends.def"
#undef BACKEND
};

// Words of kinds that must be there. CheckConfig has passed the setting.
std::vector<std::string> Wanted(absl::string_view gpus) {
  if (gpus == "auto" || gpus == "none") return {};
  return absl::StrSplit(gpus, ',');
}

absl::Status Open(const Backend& backend, const v1::ServerConfig& config, const Log& log, Found& found) {
  const std::vector<std::string> words = Wanted(config.gpus());
  const bool wanted = std::find(words.begin(), words.end(), backend.word) != words.end();
  if (!backend.word.empty() && (config.gpus() == "none" || (!words.empty() && !wanted))) {
    found.absent.push_back(absl::StrCat("the server was started with --gpus=", config.gpus()));
    return absl::OkStatus();
  }
  KILN_ASSIGN_OR_RETURN(found, backend.open(config, log));
  if (!found.devices.empty() || !wanted) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("--gpus=", config.gpus(), " wants ", backend.kind,
                                             " devices, and there are none: ", absl::StrJoin(found.absent, "; ")));
}

}  // namespace

absl::Status OpenBackends(const v1::ServerConfig& config, std::shared_ptr<spdlog::logger> log,
                          std::vector<std::unique_ptr<runtime::hal::Device>>& devices,
                          std::vector<v1::AbsentDevices>& absent) {
  const auto say = [&absent](absl::string_view kind, std::string reason) {
    v1::AbsentDevices& row = absent.emplace_back();
    row.set_kind(std::string(kind));
    row.set_reason(std::move(reason));
  };
  for (const Backend& backend : kBackends) {
    Found found;
    KILN_RETURN_IF_ERROR(Open(backend, config, log, found));
    for (auto& device : found.devices) devices.push_back(std::move(device));
    if (!found.no_collectives.empty())
      say(backend.collectives, absl::StrCat(found.no_collectives, ": collectives of several cards go without it"));
    for (std::string& reason : found.absent) say(backend.kind, std::move(reason));
  }
  return absl::OkStatus();
}

}  // namespace kiln::server
