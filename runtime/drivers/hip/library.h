// AMD's runtime library, as far as Kiln calls it. See runtime/drivers/cuda/library.h.
//
// Nothing here takes hipDeviceProp_t, whose layout changed between versions under one name.
#ifndef KILN_RUNTIME_DRIVERS_HIP_LIBRARY_H_
#define KILN_RUNTIME_DRIVERS_HIP_LIBRARY_H_

#include <cstddef>
#include <cstdint>

#include "runtime/drivers/gpu/entry_points.h"

namespace kiln::runtime::hip {

struct Library : gpu::EntryPoints {
  Entry<int(unsigned)> Init{this, "hipInit"};
  Entry<int(int*)> RuntimeGetVersion{this, "hipRuntimeGetVersion"};
  Entry<const char*(int)> GetErrorName{this, "hipGetErrorName"};
  Entry<const char*(int)> GetErrorString{this, "hipGetErrorString"};
  Entry<int(int*)> GetDeviceCount{this, "hipGetDeviceCount"};
  Entry<int(int)> SetDevice{this, "hipSetDevice"};
  Entry<int(char*, int, int)> DeviceGetName{this, "hipDeviceGetName"};
  Entry<int(char*, int, int)> DeviceGetPCIBusId{this, "hipDeviceGetPCIBusId"};
  Entry<int(size_t*, int)> DeviceTotalMem{this, "hipDeviceTotalMem"};
  Entry<int(int*, int, int)> DeviceCanAccessPeer{this, "hipDeviceCanAccessPeer"};
  Entry<int(int, unsigned)> DeviceEnablePeerAccess{this, "hipDeviceEnablePeerAccess"};

  Entry<int(void**, size_t)> Malloc{this, "hipMalloc"};
  Entry<int(void*)> Free{this, "hipFree"};
  Entry<int(void**, size_t, unsigned)> HostMalloc{this, "hipHostMalloc"};
  Entry<int(void*)> HostFree{this, "hipHostFree"};

  Entry<int(void**, unsigned)> StreamCreateWithFlags{this, "hipStreamCreateWithFlags"};
  Entry<int(void*)> StreamDestroy{this, "hipStreamDestroy"};
  Entry<int(void*)> StreamSynchronize{this, "hipStreamSynchronize"};
  Entry<int(void*, void*, unsigned)> StreamWaitEvent{this, "hipStreamWaitEvent"};
  Entry<int(void**, unsigned)> EventCreateWithFlags{this, "hipEventCreateWithFlags"};
  Entry<int(void*)> EventDestroy{this, "hipEventDestroy"};
  Entry<int(void*, void*)> EventRecord{this, "hipEventRecord"};
  Entry<int(void*)> EventSynchronize{this, "hipEventSynchronize"};
  Entry<int(void*)> EventQuery{this, "hipEventQuery"};
  Entry<int(float*, void*, void*)> EventElapsedTime{this, "hipEventElapsedTime"};

  Entry<int(void*, const void*, size_t, void*)> MemcpyHtoDAsync{this, "hipMemcpyHtoDAsync"};
  Entry<int(void*, void*, size_t, void*)> MemcpyDtoHAsync{this, "hipMemcpyDtoHAsync"};
  Entry<int(void*, void*, size_t, void*)> MemcpyDtoDAsync{this, "hipMemcpyDtoDAsync"};
  Entry<int(void*, int, const void*, int, size_t, void*)> MemcpyPeerAsync{this, "hipMemcpyPeerAsync"};
  Entry<int(void*, unsigned char, size_t, void*)> MemsetD8Async{this, "hipMemsetD8Async"};
  Entry<int(void*, unsigned short, size_t, void*)> MemsetD16Async{this, "hipMemsetD16Async"};
  Entry<int(void*, int, size_t, void*)> MemsetD32Async{this, "hipMemsetD32Async"};

  Entry<int(void*, int)> StreamBeginCapture{this, "hipStreamBeginCapture"};
  Entry<int(void*, void**)> StreamEndCapture{this, "hipStreamEndCapture"};
  Entry<int(void**, void*, void**, char*, size_t)> GraphInstantiate{this, "hipGraphInstantiate"};
  Entry<int(void*)> GraphDestroy{this, "hipGraphDestroy"};
  Entry<int(void*, void*)> GraphLaunch{this, "hipGraphLaunch"};
  Entry<int(void*)> GraphExecDestroy{this, "hipGraphExecDestroy"};

  Entry<int(void**, const void*)> ModuleLoadData{this, "hipModuleLoadData"};
  Entry<int(void*)> ModuleUnload{this, "hipModuleUnload"};
  Entry<int(void**, void*, const char*)> ModuleGetFunction{this, "hipModuleGetFunction"};
  Entry<int(int*, int, void*)> FuncGetAttribute{this, "hipFuncGetAttribute"};
  Entry<int(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**)>
      ModuleLaunchKernel{this, "hipModuleLaunchKernel"};
};

}  // namespace kiln::runtime::hip

#endif  // KILN_RUNTIME_DRIVERS_HIP_LIBRARY_H_
