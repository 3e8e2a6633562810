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
#include "tests/support/fake_gpu/world.h"
#include "tests/support/ptx/tensor_map.h"

namespace kiln::testing::fake_gpu {

World& TheWorld() {
  static auto* const world = new World();  // the library is never closed
  return *world;
}

}  // namespace kiln::testing::fake_gpu

namespace {

using namespace kiln::testing::fake_gpu;

uint64_t Or(const char* setting, uint64_t otherwise) {
  const uint64_t value = TheWorld().setting(setting);
  return value == 0 ? otherwise : value;
}

// The card whose context is this thread's; -1: there is none.
thread_local int current = -1;

// One call of an entry point, with the lock while it lives.
class Call {
 public:
  explicit Call(const char* name, int device = current, const std::string& arguments = "")
      : lock_(TheWorld().mutex()), code_(TheWorld().Enter(name, device)) {
    TheWorld().Note(arguments.empty() ? name : std::string(name) + " " + arguments);
  }
  int code() const { return code_; }
  // Gives back in any case: a failure of what gives back is to lose nothing.
  int Anyway(int done) const { return code_ != kSuccess ? code_ : done; }

 private:
  const std::lock_guard<std::recursive_mutex> lock_;
  const int code_;
};

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

#define FAKE(name) extern "C" __attribute__((visibility("default"))) int name
#define ENTER(...)              \
  const Call call(__VA_ARGS__); \
  if (call.code() != 0) return call.code()

extern "C" __attribute__((visibility("default"))) const char* KilnFake(const char* command) {
  return TheWorld().Control(command);
}

FAKE(cuInit)(unsigned) {
  const Call call("cuInit", -1);
  return call.Anyway(static_cast<int>(TheWorld().setting("init")));
}
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
  ENTER("cuDeviceGetName", device);
  std::snprintf(name, static_cast<size_t>(size), "Fake card");
  return kSuccess;
}
FAKE(cuDeviceGetAttribute)(int* value, int attribute, int device) {
  ENTER("cuDeviceGetAttribute", device, std::to_string(attribute));
  *value = AttributeOf(attribute);
  return *value == -1 ? kInvalidValue : kSuccess;
}
FAKE(cuDeviceTotalMem_v2)(size_t* bytes, int device) {
  ENTER("cuDeviceTotalMem_v2", device);
  *bytes = TheWorld().setting("memory");
  return kSuccess;
}
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
  current = device;
  return kSuccess;
}

FAKE(cuDeviceCanAccessPeer)(int* can, int device, int peer) {
  ENTER("cuDeviceCanAccessPeer", device);
  *can = TheWorld().Connects(device, peer) ? 1 : 0;
  return kSuccess;
}
FAKE(cuCtxEnablePeerAccess)(void* context, unsigned) {
  ENTER("cuCtxEnablePeerAccess");
  return TheWorld().EnablePeer(current, DeviceOf(context));
}

FAKE(cuMemAlloc_v2)(uint64_t* address, size_t bytes) {
  ENTER("cuMemAlloc_v2", current, std::to_string(bytes));
  return TheWorld().Allocate(current, bytes, address);
}
FAKE(cuMemFree_v2)(uint64_t address) {
  const Call call("cuMemFree_v2");
  return call.Anyway(TheWorld().Free(address));
}
FAKE(cuMemHostAlloc)(void** memory, size_t bytes, unsigned) {
  ENTER("cuMemHostAlloc", current, std::to_string(bytes));
  return TheWorld().AllocatePinned(current, memory, bytes);
}
FAKE(cuMemFreeHost)(void* memory) {
  const Call call("cuMemFreeHost");
  return call.Anyway(TheWorld().FreePinned(memory));
}

FAKE(cuStreamCreate)(void** stream, unsigned) {
  ENTER("cuStreamCreate");
  return TheWorld().MakeStream(current, stream);
}
FAKE(cuStreamDestroy_v2)(void* stream) {
  const Call call("cuStreamDestroy_v2");
  return call.Anyway(TheWorld().DestroyStream(stream));
}
FAKE(cuStreamSynchronize)(void* stream) {
  ENTER("cuStreamSynchronize");
  return TheWorld().Finish(stream);
}
FAKE(cuStreamWaitEvent)(void* stream, void* event, unsigned) {
  ENTER("cuStreamWaitEvent");
  return TheWorld().Follow(stream, event);
}
FAKE(cuEventCreate)(void** event, unsigned flags) {
  ENTER("cuEventCreate");
  return TheWorld().MakeEvent(current, event, (flags & 2) == 0);
}
FAKE(cuEventDestroy_v2)(void* event) {
  const Call call("cuEventDestroy_v2");
  return call.Anyway(TheWorld().DestroyEvent(event));
}
FAKE(cuEventRecord)(void* event, void* stream) {
  ENTER("cuEventRecord");
  return TheWorld().Record(event, stream);
}
FAKE(cuEventSynchronize)(void* event) {
  ENTER("cuEventSynchronize");
  return TheWorld().Wait(event);
}

FAKE(cuEventQuery)(void* event) {
  ENTER("cuEventQuery");
  return TheWorld().Query(event);
}
FAKE(cuEventElapsedTime)(float* milliseconds, void* from, void* to) {
  ENTER("cuEventElapsedTime");
  return TheWorld().Elapsed(milliseconds, from, to);
}

FAKE(cuMemcpyHtoDAsync_v2)(uint64_t to, const void* from, size_t bytes, void* stream) {
  ENTER("cuMemcpyHtoDAsync_v2", current, std::to_string(bytes));
  return TheWorld().CopyIn(stream, from, to, bytes);
}
FAKE(cuMemcpyDtoHAsync_v2)(void* to, uint64_t from, size_t bytes, void* stream) {
  ENTER("cuMemcpyDtoHAsync_v2", current, std::to_string(bytes));
  return TheWorld().CopyOut(stream, from, to, bytes);
}
FAKE(cuMemcpyDtoDAsync_v2)(uint64_t to, uint64_t from, size_t bytes, void* stream) {
  ENTER("cuMemcpyDtoDAsync_v2", current, std::to_string(bytes));
  return TheWorld().CopyInside(stream, from, to, bytes);
}
FAKE(cuMemcpyPeerAsync)(uint64_t to, void* to_context, uint64_t from, void* from_context, size_t bytes, void* stream) {
  ENTER("cuMemcpyPeerAsync", current, std::to_string(bytes));
  if (DeviceOf(to_context) != current) return kInvalidContext;
  return TheWorld().CopyFromPeer(stream, DeviceOf(from_context), from, to, bytes);
}
FAKE(cuMemsetD8Async)(uint64_t to, unsigned char value, size_t count, void* stream) {
  ENTER("cuMemsetD8Async", current, std::to_string(count));
  return TheWorld().Fill(stream, to, value, 1, count);
}
FAKE(cuMemsetD16Async)(uint64_t to, unsigned short value, size_t count, void* stream) {
  ENTER("cuMemsetD16Async", current, std::to_string(count));
  return TheWorld().Fill(stream, to, value, 2, count);
}
FAKE(cuMemsetD32Async)(uint64_t to, unsigned value, size_t count, void* stream) {
  ENTER("cuMemsetD32Async", current, std::to_string(count));
  return TheWorld().Fill(stream, to, value, 4, count);
}

FAKE(cuStreamBeginCapture_v2)(void* stream, int) {
  ENTER("cuStreamBeginCapture_v2");
  return TheWorld().BeginCapture(stream);
}
FAKE(cuStreamEndCapture)(void* stream, void** graph) {
  // A failure ends it, too, as one of the launches would.
  const Call call("cuStreamEndCapture");
  const int code = TheWorld().EndCapture(stream, graph);
  if (call.code() == kSuccess) return code;
  if (code == kSuccess) TheWorld().DestroyGraph(*graph);
  *graph = nullptr;
  return call.code();
}
FAKE(cuGraphInstantiateWithFlags)(void** made, void* graph, unsigned long long) {
  ENTER("cuGraphInstantiateWithFlags");
  return TheWorld().Instantiate(graph, made);
}
FAKE(cuGraphDestroy)(void* graph) {
  const Call call("cuGraphDestroy");
  return call.Anyway(TheWorld().DestroyGraph(graph));
}
FAKE(cuGraphLaunch)(void* graph, void* stream) {
  ENTER("cuGraphLaunch");
  return TheWorld().LaunchGraph(graph, stream);
}
FAKE(cuGraphExecDestroy)(void* graph) {
  const Call call("cuGraphExecDestroy");
  return call.Anyway(TheWorld().DestroyGraph(graph));
}

FAKE(cuModuleLoadDataEx)(void** module, const void* image, unsigned count, int* options, void** values) {
  ENTER("cuModuleLoadDataEx");
  std::string fault;
  auto program = kiln::testing::LoadPtx(static_cast<const char*>(image), fault);
  if (program != nullptr) return TheWorld().Load(current, std::move(program), module);
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
FAKE(cuModuleUnload)(void* module) {
  const Call call("cuModuleUnload");
  return call.Anyway(TheWorld().Unload(module));
}
FAKE(cuModuleGetFunction)(void** function, void* module, const char* name) {
  ENTER("cuModuleGetFunction", current, name);
  return TheWorld().Find(module, name, function);
}
FAKE(cuFuncGetAttribute)(int* value, int attribute, void* function) {
  ENTER("cuFuncGetAttribute", current, std::to_string(attribute));
  const Function* found = TheWorld().FunctionAt(function);
  if (found == nullptr) return kInvalidHandle;
  switch (attribute) {
    case 0: *value = static_cast<int>(found->kernel->max_items); return kSuccess;
    case 1: *value = static_cast<int>(found->kernel->static_shared_bytes); return kSuccess;
    case 4: *value = 32; return kSuccess;
    default: return kInvalidValue;
  }
}
FAKE(cuFuncSetAttribute)(void* function, int attribute, int value) {
  ENTER("cuFuncSetAttribute", current, std::to_string(attribute) + " " + std::to_string(value));
  return TheWorld().FunctionAt(function) == nullptr ? kInvalidHandle : kSuccess;
}
#ifndef KILN_FAKE_OF_CUDA_11
FAKE(cuTensorMapEncodeTiled)(void* map, int type, unsigned rank, void* address, const uint64_t* sizes,
                             const uint64_t* strides, const uint32_t* box, const uint32_t* element_strides,
                             int interleave, int swizzle, int, int fill) {
  ENTER("cuTensorMapEncodeTiled", current, std::to_string(rank) + " axes");
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
  const Function* found = TheWorld().FunctionAt(function);
  ENTER("cuLaunchKernel", current, found == nullptr ? "" : found->name);
  return TheWorld().Start(stream, function, {{gx, gy, gz}, {x, y, z}, shared_bytes}, parameters);
}
