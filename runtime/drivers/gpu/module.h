// Code that is loaded on a GPU, and lists of launches of it.
#ifndef KILN_RUNTIME_DRIVERS_GPU_MODULE_H_
#define KILN_RUNTIME_DRIVERS_GPU_MODULE_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kiln/v1/executable.pb.h"
#include "runtime/drivers/gpu/launcher.h"
#include "runtime/hal/launch_list.h"
#include "runtime/hal/module.h"

namespace kiln::runtime::gpu {

// See hal::Device::LoadModule; besides, GRAPH_TOO_LARGE naming the kernel where a launch asks for
// more of something than the card has. Both outlive the module; `modules` counts those there are.
// How its launches are asked for: launcher.h.
absl::StatusOr<std::unique_ptr<hal::Module>> LoadModule(const v1::Executable& executable, LaunchPlace* place,
                                                        std::atomic<uint64_t>* modules);

// See hal::Device::MakeLaunchList: of modules that this has loaded.
std::unique_ptr<hal::LaunchList> MakeLaunchList(absl::Span<const hal::Launch> launches, LaunchPlace* place);

}  // namespace kiln::runtime::gpu

#endif  // KILN_RUNTIME_DRIVERS_GPU_MODULE_H_
