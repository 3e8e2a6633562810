// Kernels on a GPU, launched on the stream of its queue.
#ifndef KILN_RUNTIME_DRIVERS_GPU_MODULE_H_
#define KILN_RUNTIME_DRIVERS_GPU_MODULE_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "kiln/v1/executable.pb.h"
#include "runtime/drivers/gpu/card.h"
#include "runtime/drivers/gpu/launch_clock.h"
#include "runtime/hal/module.h"

namespace kiln::runtime::gpu {

// Counts that a device's modules keep together.
struct ModuleCounters {
  std::atomic<uint64_t> launches{0};
  std::atomic<uint64_t> modules{0};
};

// See hal::Device::LoadModule; besides, GRAPH_TOO_LARGE naming the kernel where a launch asks for
// more of something than the card has. All must outlive the module.
//
// Launches are asked of the stream without waiting (hal::Device::FinishLaunches); an error of one
// of them is found at the end, and is the error of all. A kernel that runs cannot be stopped: a
// stop that a LaunchControl asks for takes effect between kernels, and where one may come, no more
// than 64 are asked for ahead.
absl::StatusOr<std::unique_ptr<hal::Module>> LoadModule(const v1::Executable& executable, Card* card, Stream stream,
                                                        LaunchClock* clock, ModuleCounters* counters);

}  // namespace kiln::runtime::gpu

#endif  // KILN_RUNTIME_DRIVERS_GPU_MODULE_H_
