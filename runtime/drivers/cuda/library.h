// NVIDIA's driver library, as far as Kiln calls it.
//
// The prototypes are ours and have no type of the vendor's: handles are void*, enumerations and
// devices int, addresses of the card's memory 64-bit numbers. The names are the versioned ones
// under which the library keeps its functions as they are.
#ifndef KILN_RUNTIME_DRIVERS_CUDA_LIBRARY_H_
#define KILN_RUNTIME_DRIVERS_CUDA_LIBRARY_H_

#include <cstddef>
#include <cstdint>

#include "runtime/drivers/gpu/entry_points.h"

namespace kiln::runtime::cuda {

struct Library : gpu::EntryPoints {
  Entry<int(unsigned)> Init{this, "cuInit"};
  Entry<int(int*)> DriverGetVersion{this, "cuDriverGetVersion"};
  Entry<int(int, const char**)> GetErrorName{this, "cuGetErrorName"};
  Entry<int(int, const char**)> GetErrorString{this, "cuGetErrorString"};
  Entry<int(int*)> DeviceGetCount{this, "cuDeviceGetCount"};
  Entry<int(int*, int)> DeviceGet{this, "cuDeviceGet"};
  Entry<int(char*, int, int)> DeviceGetName{this, "cuDeviceGetName"};
  Entry<int(int*, int, int)> DeviceGetAttribute{this, "cuDeviceGetAttribute"};
  Entry<int(size_t*, int)> DeviceTotalMem{this, "cuDeviceTotalMem_v2"};
  Entry<int(void**, int)> DevicePrimaryCtxRetain{this, "cuDevicePrimaryCtxRetain"};
  Entry<int(int)> DevicePrimaryCtxRelease{this, "cuDevicePrimaryCtxRelease_v2"};
  Entry<int(void*)> CtxSetCurrent{this, "cuCtxSetCurrent"};
  Entry<int(int*, int, int)> DeviceCanAccessPeer{this, "cuDeviceCanAccessPeer"};
  Entry<int(void*, unsigned)> CtxEnablePeerAccess{this, "cuCtxEnablePeerAccess"};

  Entry<int(uint64_t*, size_t)> MemAlloc{this, "cuMemAlloc_v2"};
  Entry<int(uint64_t)> MemFree{this, "cuMemFree_v2"};
  Entry<int(void**, size_t, unsigned)> MemHostAlloc{this, "cuMemHostAlloc"};
  Entry<int(void*)> MemFreeHost{this, "cuMemFreeHost"};

  Entry<int(void**, unsigned)> StreamCreate{this, "cuStreamCreate"};
  Entry<int(void*)> StreamDestroy{this, "cuStreamDestroy_v2"};
  Entry<int(void*)> StreamSynchronize{this, "cuStreamSynchronize"};
  Entry<int(void*, void*, unsigned)> StreamWaitEvent{this, "cuStreamWaitEvent"};
  Entry<int(void**, unsigned)> EventCreate{this, "cuEventCreate"};
  Entry<int(void*)> EventDestroy{this, "cuEventDestroy_v2"};
  Entry<int(void*, void*)> EventRecord{this, "cuEventRecord"};
  Entry<int(void*)> EventSynchronize{this, "cuEventSynchronize"};
  Entry<int(void*)> EventQuery{this, "cuEventQuery"};
  Entry<int(float*, void*, void*)> EventElapsedTime{this, "cuEventElapsedTime"};

  Entry<int(uint64_t, const void*, size_t, void*)> MemcpyHtoDAsync{this, "cuMemcpyHtoDAsync_v2"};
  Entry<int(void*, uint64_t, size_t, void*)> MemcpyDtoHAsync{this, "cuMemcpyDtoHAsync_v2"};
  Entry<int(uint64_t, uint64_t, size_t, void*)> MemcpyDtoDAsync{this, "cuMemcpyDtoDAsync_v2"};
  Entry<int(uint64_t, void*, uint64_t, void*, size_t, void*)> MemcpyPeerAsync{this, "cuMemcpyPeerAsync"};
  Entry<int(uint64_t, unsigned char, size_t, void*)> MemsetD8Async{this, "cuMemsetD8Async"};
  Entry<int(uint64_t, unsigned short, size_t, void*)> MemsetD16Async{this, "cuMemsetD16Async"};
  Entry<int(uint64_t, unsigned, size_t, void*)> MemsetD32Async{this, "cuMemsetD32Async"};

  Entry<int(void*, int)> StreamBeginCapture{this, "cuStreamBeginCapture_v2"};
  Entry<int(void*, void**)> StreamEndCapture{this, "cuStreamEndCapture"};
  Entry<int(void**, void*, unsigned long long)> GraphInstantiate{this, "cuGraphInstantiateWithFlags"};
  Entry<int(void*)> GraphDestroy{this, "cuGraphDestroy"};
  Entry<int(void*, void*)> GraphLaunch{this, "cuGraphLaunch"};
  Entry<int(void*)> GraphExecDestroy{this, "cuGraphExecDestroy"};

  Entry<int(void**, const void*, unsigned, int*, void**)> ModuleLoadDataEx{this, "cuModuleLoadDataEx"};
  Entry<int(void*)> ModuleUnload{this, "cuModuleUnload"};
  Entry<int(void**, void*, const char*)> ModuleGetFunction{this, "cuModuleGetFunction"};
  Entry<int(int*, int, void*)> FuncGetAttribute{this, "cuFuncGetAttribute"};
  Entry<int(void*, int, int)> FuncSetAttribute{this, "cuFuncSetAttribute"};
  Entry<int(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**)>
      LaunchKernel{this, "cuLaunchKernel"};

  // Drivers before CUDA 12.0 lack it.
  Entry<int(void*, int, unsigned, void*, const uint64_t*, const uint64_t*, const uint32_t*, const uint32_t*, int, int,
            int, int)>
      TensorMapEncodeTiled{this, "cuTensorMapEncodeTiled", kOptional};
};

}  // namespace kiln::runtime::cuda

#endif  // KILN_RUNTIME_DRIVERS_CUDA_LIBRARY_H_
