// One server over the processes of an MPI job.
//
// Rank 0 is the server. The others have no port and no compiler: they do what rank 0
// says with the devices they have, until it ends the job or is gone.
#ifndef KILN_SERVER_JOB_H_
#define KILN_SERVER_JOB_H_

#include <spdlog/fwd.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kiln/v1/config.pb.h"
#include "runtime/drivers/cpu/device.h"
#include "runtime/hal/device.h"

namespace kiln::server {

// Whether this process is one of several that `config` wants to be one server, and which.
bool InJob(const v1::ServerConfig& config);
uint32_t RankInJob();

// What `config` says of CPU devices, for this process. Ranks that share a machine share
// its memory, and unless the launcher gave each its own cores, those too. What the core does in a cycle is not in it
// (cpu_core.h).
runtime::cpu::DeviceOptions CpuOptions(const v1::ServerConfig& config);

// Joins the job as rank 0 and adds the devices of the other ranks to `devices`, numbered
// on. `died` is called once for each rank that dies, on a thread of the job's. The job
// ends with the last of the devices.
absl::Status OpenJob(const v1::ServerConfig& config, std::shared_ptr<spdlog::logger> log,
                     std::function<void(const absl::Status& why)> died,
                     std::vector<std::unique_ptr<runtime::hal::Device>>& devices);

// Is another rank, until the job ends; the process's exit code.
int ServeRank(const v1::ServerConfig& config, std::shared_ptr<spdlog::logger> log);

}  // namespace kiln::server

#endif  // KILN_SERVER_JOB_H_
