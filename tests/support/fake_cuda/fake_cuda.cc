// A libcuda.so.1 for computers without NVIDIA's driver: the entry points that
// runtime/drivers/cuda/library.h names, over tests/support/fake_gpu.
//
// Besides what every fake has, "set" knows: major and minor (the compute capability), driver (its
// version), init (what cuInit returns).
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <string>

#include "tests/support/fake_cuda/ptx_program.h"
#include "tests/support/fake_gpu/calls.h"
#include "tests/support/ptx/tensor_map.h"

namespace {

using namespace kiln::testing::fake_gpu;

uint64_t Or(const char* setting, uint64_t otherwise) {
  const uint64_t value = TheWorld().setting(setting);
  return value == 0 ? otherwise : value;
}

// A context is the number of its card, from 1 on.
void* ContextOf(int device) { return reinterpret_cast<void*>(static_cast<uintptr_t>(device) + 1); }
int DeviceOf(void* context) { return static_cast<int>(reinterpret_cast<uintptr_t>(context)) - 1; }

struct ErrorRow {
  int code;
  const char* name;
  const char* text;
};
constexpr ErrorRow kErrors[] = {
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {34, "CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {218, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
};
constexpr int kInvalidPtx = 218;

int AttributeOf(int attribute) {
  switch (attribute) {
    case 1: return 1024;  // threads of a block
    case 2:
    case 3: return 1024;        // along x and y
    case 4: return 64;          // along z
    case 5: return 0x7fffffff;  // blocks along x
    case 6:
    case 7: return 65535;     // along y and z
    case 10: return 32;       // threads of a warp
    case 16: return 4;        // multiprocessors
    case 38: return 4 << 20;  // bytes of L2
    case 75: return static_cast<int>(Or("major", 9));
    case 76: return static_cast<int>(TheWorld().setting("minor"));
    case 81: return 228 << 10;  // shared bytes of a multiprocessor
    case 97: return 227 << 10;  // of a block, if it asks
    default: return -1;
  }
}

}  // namespace

EXPORT const char* KilnFake(const char* command) { return TheWorld().Control(command); }

FAKE(cuInit)(unsigned) { return Init(__func__); }
FAKE(cuDriverGetVersion)(int* version) {
  ENTER("cuDriverGetVersion", -1);
  *version = static_cast<int>(Or("driver", 13000));
  return kSuccess;
}
FAKE(cuGetErrorName)(int code, const char** name) {
  for (const ErrorRow& row : kErrors) {
    if (row.code == code) *name = row.name;
  }
  return kSuccess;
}
FAKE(cuGetErrorString)(int code, const char** text) {
  for (const ErrorRow& row : kErrors) {
    if (row.code == code) *text = row.text;
  }
  return kSuccess;
}
FAKE(cuDeviceGetCount)(int* count) {
  ENTER("cuDeviceGetCount", -1);
  *count = static_cast<int>(TheWorld().setting("devices"));
  return kSuccess;
}
FAKE(cuDeviceGet)(int* device, int ordinal) {
  ENTER("cuDeviceGet", ordinal);
  *device = ordinal;
  return kSuccess;
}
FAKE(cuDeviceGetName)(char* name, int size, int device) {
  return NameDevice(__func__, name, size, device, "Fake card");
}
FAKE(cuDeviceGetAttribute)(int* value, int attribute, int device) {
  ENTER("cuDeviceGetAttribute", device, std::to_string(attribute));
  *value = AttributeOf(attribute);
  return *value == -1 ? kInvalidValue : kSuccess;
}
FAKE(cuDeviceTotalMem_v2)(size_t* bytes, int device) { return TotalMemory(__func__, bytes, device); }
FAKE(cuDevicePrimaryCtxRetain)(void** context, int device) {
  ENTER("cuDevicePrimaryCtxRetain", device);
  TheWorld().Retain(device);
  *context = ContextOf(device);
  return kSuccess;
}
FAKE(cuDevicePrimaryCtxRelease_v2)(int device) {
  const Call call("cuDevicePrimaryCtxRelease_v2", device);
  TheWorld().Release(device);
  return call.code();
}
FAKE(cuCtxSetCurrent)(void* context) {
  const int device = DeviceOf(context);
  ENTER("cuCtxSetCurrent", device);
  Current() = device;
  return kSuccess;
}

FAKE(cuDeviceCanAccessPeer)(int* can, int device, int peer) { return CanAccessPeer(__func__, can, device, peer); }
FAKE(cuCtxEnablePeerAccess)(void* context, unsigned) {
  ENTER("cuCtxEnablePeerAccess");
  return TheWorld().EnablePeer(Current(), DeviceOf(context));
}

FAKE(cuMemAlloc_v2)(uint64_t* address, size_t bytes) { return Allocate(__func__, address, bytes); }
FAKE(cuMemFree_v2)(uint64_t address) { return Free(__func__, address); }
FAKE(cuMemHostAlloc)(void** memory, size_t bytes, unsigned) { return AllocateHost(__func__, memory, bytes); }
FAKE(cuMemFreeHost)(void* memory) { return FreeHost(__func__, memory); }

FAKE(cuStreamCreate)(void** stream, unsigned) { return MakeStream(__func__, stream); }
FAKE(cuStreamDestroy_v2)(void* stream) { return DestroyStream(__func__, stream); }
FAKE(cuStreamSynchronize)(void* stream) { return FinishStream(__func__, stream); }
FAKE(cuStreamWaitEvent)(void* stream, void* event, unsigned) { return Follow(__func__, stream, event); }
FAKE(cuEventCreate)(void** event, unsigned flags) { return MakeEvent(__func__, event, flags); }
FAKE(cuEventDestroy_v2)(void* event) { return DestroyEvent(__func__, event); }
FAKE(cuEventRecord)(void* event, void* stream) { return Record(__func__, event, stream); }
FAKE(cuEventSynchronize)(void* event) { return WaitForEvent(__func__, event); }

FAKE(cuEventQuery)(void* event) { return QueryEvent(__func__, event); }
FAKE(cuEventElapsedTime)(float* milliseconds, void* from, void* to) {
  return ElapsedTime(__func__, milliseconds, from, to);
}

FAKE(cuMemcpyHtoDAsync_v2)(uint64_t to, const void* from, size_t bytes, void* stream) {
  return CopyIn(__func__, to, from, bytes, stream);
}
FAKE(cuMemcpyDtoHAsync_v2)(void* to, uint64_t from, size_t bytes, void* stream) {
  return CopyOut(__func__, to, from, bytes, stream);
}
FAKE(cuMemcpyDtoDAsync_v2)(uint64_t to, uint64_t from, size_t bytes, void* stream) {
  return CopyInside(__func__, to, from, bytes, stream);
}
FAKE(cuMemcpyPeerAsync)(uint64_t to, void* to_context, uint64_t from, void* from_context, size_t bytes, void* stream) {
  ENTER("cuMemcpyPeerAsync", Current(), std::to_string(bytes));
  if (DeviceOf(to_context) != Current()) return kInvalidContext;
  return TheWorld().CopyFromPeer(stream, DeviceOf(from_context), from, to, bytes);
}
FAKE(cuMemsetD8Async)(uint64_t to, unsigned char value, size_t count, void* stream) {
  return Fill(__func__, to, value, 1, count, stream);
}
FAKE(cuMemsetD16Async)(uint64_t to, unsigned short value, size_t count, void* stream) {
  return Fill(__func__, to, value, 2, count, stream);
}
FAKE(cuMemsetD32Async)(uint64_t to, unsigned value, size_t count, void* stream) {
  return Fill(__func__, to, value, 4, count, stream);
}

FAKE(cuStreamBeginCapture_v2)(void* stream, int) { return BeginCapture(__func__, stream); }
FAKE(cuStreamEndCapture)(void* stream, void** graph) { return EndCapture(__func__, stream, graph); }
FAKE(cuGraphInstantiateWithFlags)(void** made, void* graph, unsigned long long) {
  return Instantiate(__func__, made, graph);
}
FAKE(cuGraphDestroy)(void* graph) { return DestroyGraph(__func__, graph); }
FAKE(cuGraphLaunch)(void* graph, void* stream) { return LaunchGraph(__func__, graph, stream); }
FAKE(cuGraphExecDestroy)(void* graph) { return DestroyGraph(__func__, graph); }

FAKE(cuModuleLoadDataEx)(void** module, const void* image, unsigned count, int* options, void** values) {
  ENTER("cuModuleLoadDataEx");
  std::string fault;
  auto program = kiln::testing::LoadPtx(static_cast<const char*>(image), fault);
  if (program != nullptr) return TheWorld().Load(Current(), std::move(program), module);
  // The log of errors is option 5, and how large it is, 6.
  char* log = nullptr;
  size_t size = 0;
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] == 5) log = static_cast<char*>(values[i]);
    if (options[i] == 6) size = reinterpret_cast<size_t>(values[i]);
  }
  if (log != nullptr) std::snprintf(log, size, "ptxas fatal   : %s\n", fault.c_str());
  return kInvalidPtx;
}
FAKE(cuModuleUnload)(void* module) { return UnloadModule(__func__, module); }
FAKE(cuModuleGetFunction)(void** function, void* module, const char* name) {
  return FindFunction(__func__, function, module, name);
}
FAKE(cuFuncGetAttribute)(int* value, int attribute, void* function) {
  return FunctionAttribute(__func__, value, attribute, function);
}
FAKE(cuFuncSetAttribute)(void* function, int attribute, int value) {
  ENTER("cuFuncSetAttribute", Current(), std::to_string(attribute) + " " + std::to_string(value));
  return TheWorld().FunctionAt(function) == nullptr ? kInvalidHandle : kSuccess;
}
#ifndef KILN_FAKE_OF_CUDA_11
FAKE(cuTensorMapEncodeTiled)(void* map, int type, unsigned rank, void* address, const uint64_t* sizes,
                             const uint64_t* strides, const uint32_t* box, const uint32_t* element_strides,
                             int interleave, int swizzle, int, int fill) {
  ENTER("cuTensorMapEncodeTiled", Current(), std::to_string(rank) + " axes");
  static constexpr uint32_t kBytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2};  // of types
  static constexpr uint32_t kSwizzles[] = {0, 32, 64, 128};
  if (reinterpret_cast<uintptr_t>(map) % 64 != 0 || type < 0 || type > 9 || rank < 1 || rank > 5 || interleave != 0 ||
      swizzle < 0 || swizzle > 3 || fill != 0)
    return kInvalidValue;
  kiln::testing::ptx::TensorMap tensor;
  tensor.address = reinterpret_cast<uint64_t>(address);
  tensor.element_bytes = kBytes[type];
  tensor.rank = rank;
  tensor.swizzle_bytes = kSwizzles[swizzle];
  for (unsigned axis = 0; axis < rank; ++axis) {
    if (element_strides[axis] != 1) return kInvalidValue;
    tensor.sizes[axis] = sizes[axis];
    tensor.box[axis] = box[axis];
    if (axis + 1 < rank) tensor.strides[axis] = strides[axis];
  }
  return kiln::testing::ptx::EncodeTensorMap(tensor, map) ? kSuccess : kInvalidValue;
}
#endif
FAKE(cuLaunchKernel)(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned x, unsigned y, unsigned z,
                     unsigned shared_bytes, void* stream, void** parameters, void**) {
  return StartKernel(__func__, function, {{gx, gy, gz}, {x, y, z}, shared_bytes}, stream, parameters);
}
