// Asks the stream of a device's queue for kernels: of one module, or of several.
#ifndef KILN_RUNTIME_DRIVERS_GPU_LAUNCHER_H_
#define KILN_RUNTIME_DRIVERS_GPU_LAUNCHER_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "runtime/drivers/gpu/card.h"
#include "runtime/drivers/gpu/launch_clock.h"
#include "runtime/drivers/gpu/launch_graphs.h"
#include "runtime/drivers/gpu/tensor_maps.h"
#include "runtime/hal/module.h"

namespace kiln::runtime::gpu {

struct Kernel {
  std::string symbol;
  Function function = nullptr;
  LaunchShape shape;
  uint32_t operands = 0;
  TensorMaps tensor_maps;
};

// What a device's launchers have in common; outlives them.
struct LaunchPlace {
  Card* card = nullptr;
  Stream stream = nullptr;
  LaunchClock* clock = nullptr;
  std::atomic<uint64_t> launches{0};  // so far
};

// For work of the device's queue alone.
//
// Launches are asked for without waiting (hal::Device::FinishLaunches); an error of one of them is
// found at the end, and is the error of all. A kernel that runs cannot be stopped: a stop that a
// LaunchControl asks for takes effect between kernels, and where one may come, no more than 64 are
// asked for ahead.
class Launcher {
 public:
  // A step's `kernel` counts these, which outlive the launcher.
  Launcher(LaunchPlace* place, std::vector<Kernel*> kernels);

  // As hal::Module::LaunchAll; what comes again with the same operands becomes graphs.
  absl::Status LaunchAll(absl::Span<const hal::LaunchStep> steps, void* const* operands,
                         const hal::LaunchControl& control, uint32_t& launched);

 private:
  absl::Status Ask(Stream stream, Kernel& kernel, void* const* operands);

  LaunchPlace* const place_;
  const std::vector<Kernel*> kernels_;
  LaunchGraphs graphs_;
  std::vector<void*> parameters_;  // of the launch that is being asked for
};

}  // namespace kiln::runtime::gpu

#endif  // KILN_RUNTIME_DRIVERS_GPU_LAUNCHER_H_
