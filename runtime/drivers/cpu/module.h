// Kernels in this process, launched on the worker pool.
#ifndef KILN_RUNTIME_DRIVERS_CPU_MODULE_H_
#define KILN_RUNTIME_DRIVERS_CPU_MODULE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kiln/v1/executable.pb.h"
#include "runtime/drivers/cpu/deadline_watch.h"
#include "runtime/drivers/cpu/linker.h"
#include "runtime/drivers/cpu/worker_pool.h"
#include "runtime/hal/module.h"

namespace kiln::runtime::cpu {

// Counts that a device's modules keep together.
struct ModuleCounters {
  std::atomic<uint64_t> launches{0};
  std::atomic<uint64_t> modules{0};
};

// See hal::Device::LoadModule. `pool`, `watch` and `counters` must outlive the module.
absl::StatusOr<std::unique_ptr<hal::Module>> LoadModule(const v1::Executable& executable, Linker& linker,
                                                        WorkerPool& pool, DeadlineWatch& watch,
                                                        ModuleCounters& counters);

}  // namespace kiln::runtime::cpu

#endif  // KILN_RUNTIME_DRIVERS_CPU_MODULE_H_
