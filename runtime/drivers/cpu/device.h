// The CPU as a device.
//
// Kernels are machine code in this process, buffers are host memory, and the
// queue runs small work on the thread that submits it.
#ifndef KILN_RUNTIME_DRIVERS_CPU_DEVICE_H_
#define KILN_RUNTIME_DRIVERS_CPU_DEVICE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kiln/v1/target.pb.h"
#include "runtime/drivers/cpu/deadline_watch.h"
#include "runtime/drivers/cpu/worker_pool.h"
#include "runtime/drivers/host/page_pool.h"
#include "runtime/hal/device.h"

namespace kiln::runtime::cpu {

struct DeviceOptions {
  std::string name = "CPU:0";
  // Threads that run one kernel together, the submitting one included; 0 means
  // one for each core this process may use. Ignored if `pool` is set.
  uint32_t threads = 0;
  // Shared between several CPU devices, whose loops then share its workers
  // (WorkerPool::Options::loops). Null: the device makes its own.
  std::shared_ptr<WorkerPool> pool;
  // Shared between devices too. Null: the device makes its own.
  std::shared_ptr<DeadlineWatch> watch = nullptr;
  // Of the process, shared between devices. Null: the device makes its own.
  std::shared_ptr<host::Mappings> mappings = nullptr;
  // Most bytes handed out and cached together; 0 means 80% of the machine's.
  uint64_t memory_limit_bytes = 0;
  // Most freed bytes kept for reuse; 0 means a quarter of the limit.
  uint64_t memory_cache_bytes = 0;
  // Where it is, if that needs saying; the description ends with it.
  std::string place;
  // Registers generated code with perf (jitdump files under ~/.debug/jit, or
  // $JITDUMPDIR) and with gdb.
  bool profile_jit = false;
  // What is known of the core (core/known_core.h); empty: the compiler takes what cores have in common.
  v1::Target::Tuning::Core core;
  // Work estimated to take longer never runs on the submitting thread.
  uint64_t inline_limit_ns = 30'000;
};

absl::StatusOr<std::unique_ptr<hal::Device>> CreateDevice(DeviceOptions options);

// `count` devices "CPU:0", "CPU:1", … that share this machine's cores by one pool
// of `options.threads`, and its memory in equal parts: the limits of `options`, or
// their defaults, are those of all together. `options.name`, `.pool`, `.watch` and
// `.mappings` are not looked at. The affinity mask says which cores there are (taskset, cpuset,
// Slurm).
absl::StatusOr<std::vector<std::unique_ptr<hal::Device>>> CreateDevices(uint32_t count, DeviceOptions options);

}  // namespace kiln::runtime::cpu

#endif  // KILN_RUNTIME_DRIVERS_CPU_DEVICE_H_
