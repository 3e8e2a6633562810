// NVIDIA's driver library, as far as Kiln calls it.
//
// The names are the versioned ones under which the library keeps its functions as they are.
#ifndef KILN_RUNTIME_DRIVERS_CUDA_LIBRARY_H_
#define KILN_RUNTIME_DRIVERS_CUDA_LIBRARY_H_

#include <cstdint>
#include <string>

#include "runtime/drivers/gpu/card_library.h"

namespace kiln::runtime::cuda {

inline constexpr gpu::CardLibrary::Symbols kSymbols = {
    .init = "cuInit",
    .get_version = "cuDriverGetVersion",
    .get_device_count = "cuDeviceGetCount",
    .device_get_name = "cuDeviceGetName",
    .device_total_memory = "cuDeviceTotalMem_v2",
    .device_can_access_peer = "cuDeviceCanAccessPeer",
    .allocate = "cuMemAlloc_v2",
    .free = "cuMemFree_v2",
    .allocate_host = "cuMemHostAlloc",
    .free_host = "cuMemFreeHost",
    .stream_create = "cuStreamCreate",
    .stream_destroy = "cuStreamDestroy_v2",
    .stream_synchronize = "cuStreamSynchronize",
    .stream_wait_event = "cuStreamWaitEvent",
    .event_create = "cuEventCreate",
    .event_destroy = "cuEventDestroy_v2",
    .event_record = "cuEventRecord",
    .event_synchronize = "cuEventSynchronize",
    .event_query = "cuEventQuery",
    .event_elapsed_time = "cuEventElapsedTime",
    .copy_to_device = "cuMemcpyHtoDAsync_v2",
    .copy_to_host = "cuMemcpyDtoHAsync_v2",
    .copy_on_device = "cuMemcpyDtoDAsync_v2",
    .set_8 = "cuMemsetD8Async",
    .set_16 = "cuMemsetD16Async",
    .set_32 = "cuMemsetD32Async",
    .stream_begin_capture = "cuStreamBeginCapture_v2",
    .stream_end_capture = "cuStreamEndCapture",
    .graph_destroy = "cuGraphDestroy",
    .graph_launch = "cuGraphLaunch",
    .graph_exec_destroy = "cuGraphExecDestroy",
    .module_unload = "cuModuleUnload",
    .module_get_function = "cuModuleGetFunction",
    .function_get_attribute = "cuFuncGetAttribute",
    .launch_kernel = "cuLaunchKernel",
};

struct Library final : gpu::CardLibrary {
  Library() : CardLibrary(kSymbols) {}

  Error ErrorOf(int code) const override {
    const char* name = nullptr;
    const char* text = nullptr;
    GetErrorName.function()(code, &name);
    GetErrorString.function()(code, &text);
    return {name == nullptr ? "error " + std::to_string(code) : name, text == nullptr ? "no text" : text};
  }

  Entry<int(int, const char**)> GetErrorName{this, "cuGetErrorName"};
  Entry<int(int, const char**)> GetErrorString{this, "cuGetErrorString"};
  Entry<int(int*, int)> DeviceGet{this, "cuDeviceGet"};
  Entry<int(int*, int, int)> DeviceGetAttribute{this, "cuDeviceGetAttribute"};
  Entry<int(void**, int)> DevicePrimaryCtxRetain{this, "cuDevicePrimaryCtxRetain"};
  Entry<int(int)> DevicePrimaryCtxRelease{this, "cuDevicePrimaryCtxRelease_v2"};
  Entry<int(void*)> CtxSetCurrent{this, "cuCtxSetCurrent"};
  Entry<int(void*, unsigned)> CtxEnablePeerAccess{this, "cuCtxEnablePeerAccess"};
  Entry<int(uint64_t, void*, uint64_t, void*, size_t, void*)> MemcpyPeerAsync{this, "cuMemcpyPeerAsync"};
  Entry<int(void**, void*, unsigned long long)> GraphInstantiate{this, "cuGraphInstantiateWithFlags"};
  Entry<int(void**, const void*, unsigned, int*, void**)> ModuleLoadDataEx{this, "cuModuleLoadDataEx"};
  Entry<int(void*, int, int)> FuncSetAttribute{this, "cuFuncSetAttribute"};

  // Drivers before CUDA 12.0 lack it.
  Entry<int(void*, int, unsigned, void*, const uint64_t*, const uint64_t*, const uint32_t*, const uint32_t*, int, int,
            int, int)>
      TensorMapEncodeTiled{this, "cuTensorMapEncodeTiled", kOptional};
};

}  // namespace kiln::runtime::cuda

#endif  // KILN_RUNTIME_DRIVERS_CUDA_LIBRARY_H_
