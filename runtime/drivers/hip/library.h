// AMD's runtime library, as far as Kiln calls it.
//
// Nothing here takes hipDeviceProp_t, whose layout changed between versions under one name. What the
// library declares as a pointer to the card's memory is a 64-bit number here: both are passed alike.
#ifndef KILN_RUNTIME_DRIVERS_HIP_LIBRARY_H_
#define KILN_RUNTIME_DRIVERS_HIP_LIBRARY_H_

#include <cstddef>
#include <cstdint>

#include "runtime/drivers/gpu/card_library.h"

namespace kiln::runtime::hip {

inline constexpr gpu::CardLibrary::Symbols kSymbols = {
    .init = "hipInit",
    .get_version = "hipRuntimeGetVersion",
    .get_device_count = "hipGetDeviceCount",
    .device_get_name = "hipDeviceGetName",
    .device_total_memory = "hipDeviceTotalMem",
    .device_can_access_peer = "hipDeviceCanAccessPeer",
    .allocate = "hipMalloc",
    .free = "hipFree",
    .allocate_host = "hipHostMalloc",
    .free_host = "hipHostFree",
    .stream_create = "hipStreamCreateWithFlags",
    .stream_destroy = "hipStreamDestroy",
    .stream_synchronize = "hipStreamSynchronize",
    .stream_wait_event = "hipStreamWaitEvent",
    .event_create = "hipEventCreateWithFlags",
    .event_destroy = "hipEventDestroy",
    .event_record = "hipEventRecord",
    .event_synchronize = "hipEventSynchronize",
    .event_query = "hipEventQuery",
    .event_elapsed_time = "hipEventElapsedTime",
    .copy_to_device = "hipMemcpyHtoDAsync",
    .copy_to_host = "hipMemcpyDtoHAsync",
    .copy_on_device = "hipMemcpyDtoDAsync",
    .set_8 = "hipMemsetD8Async",
    .set_16 = "hipMemsetD16Async",
    .set_32 = "hipMemsetD32Async",
    .stream_begin_capture = "hipStreamBeginCapture",
    .stream_end_capture = "hipStreamEndCapture",
    .graph_destroy = "hipGraphDestroy",
    .graph_launch = "hipGraphLaunch",
    .graph_exec_destroy = "hipGraphExecDestroy",
    .module_unload = "hipModuleUnload",
    .module_get_function = "hipModuleGetFunction",
    .function_get_attribute = "hipFuncGetAttribute",
    .launch_kernel = "hipModuleLaunchKernel",
};

struct Library final : gpu::CardLibrary {
  Library() : CardLibrary(kSymbols) {}

  Error ErrorOf(int code) const override { return {GetErrorName.function()(code), GetErrorString.function()(code)}; }

  Entry<const char*(int)> GetErrorName{this, "hipGetErrorName"};
  Entry<const char*(int)> GetErrorString{this, "hipGetErrorString"};
  Entry<int(int)> SetDevice{this, "hipSetDevice"};
  Entry<int(char*, int, int)> DeviceGetPCIBusId{this, "hipDeviceGetPCIBusId"};
  Entry<int(int, unsigned)> DeviceEnablePeerAccess{this, "hipDeviceEnablePeerAccess"};
  Entry<int(uint64_t, int, uint64_t, int, size_t, void*)> MemcpyPeerAsync{this, "hipMemcpyPeerAsync"};
  Entry<int(void**, void*, void**, char*, size_t)> GraphInstantiate{this, "hipGraphInstantiate"};
  Entry<int(void**, const void*)> ModuleLoadData{this, "hipModuleLoadData"};
};

}  // namespace kiln::runtime::hip

#endif  // KILN_RUNTIME_DRIVERS_HIP_LIBRARY_H_
