// A libamdhip64.so for computers without AMD's runtime: the entry points that
// runtime/drivers/hip/library.h names, over tests/support/fake_gpu. Code runs as the IR says that
// it was made from; where that is not to be found, a launch is only written down, and its kernel
// must be in the code object (code_object_program.h).
//
// Besides what every fake has, "set" knows init (what hipInit returns), and there is "ir FOLDER",
// which "reset" does not undo. The device of number N stands at 0000:0N+1:00.0, where a folder of
// the kernel's has to list it.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <string>

#include "tests/support/fake_gpu/world.h"
#include "tests/support/fake_hip/code_object_program.h"

namespace kiln::testing::fake_gpu {

World& TheWorld() {
  static auto* const world = new World();  // the library is never closed
  return *world;
}

}  // namespace kiln::testing::fake_gpu

namespace {

using namespace kiln::testing::fake_gpu;

thread_local int current = 0;

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

// Where code's IR is (LoadCodeObject).
std::string& IrFolder() {
  static auto* const folder = new std::string();
  return *folder;
}

struct ErrorRow {
  int code;
  const char* name;
  const char* text;
};
constexpr ErrorRow kErrors[] = {
    {1, "hipErrorInvalidValue", "invalid argument"},
    {2, "hipErrorOutOfMemory", "out of memory"},
    {3, "hipErrorNotInitialized", "initialization error"},
    {100, "hipErrorNoDevice", "no ROCm-capable device is detected"},
    {101, "hipErrorInvalidDevice", "invalid device ordinal"},
    {200, "hipErrorInvalidImage", "device kernel image is invalid"},
    {400, "hipErrorInvalidHandle", "invalid resource handle"},
    {500, "hipErrorNotFound", "named symbol not found"},
    {700, "hipErrorIllegalAddress", "an illegal memory access was encountered"},
    {704, "hipErrorPeerAccessAlreadyEnabled", "peer access is already enabled"},
    {719, "hipErrorLaunchFailure", "unspecified launch failure"},
};
const ErrorRow& RowOf(int code) {
  static constexpr ErrorRow kOther = {0, "hipErrorUnknown", "unknown error"};
  for (const ErrorRow& row : kErrors) {
    if (row.code == code) return row;
  }
  return kOther;
}

uint64_t At(const void* memory) { return reinterpret_cast<uint64_t>(memory); }

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))
#define FAKE(name) EXPORT int name
#define ENTER(...)              \
  const Call call(__VA_ARGS__); \
  if (call.code() != 0) return call.code()

EXPORT const char* KilnFake(const char* command) {
  const std::lock_guard<std::recursive_mutex> lock(TheWorld().mutex());
  const std::string text = command;
  if (text.rfind("ir ", 0) != 0) return TheWorld().Control(text);
  IrFolder() = text.substr(3);
  return "";
}

FAKE(hipInit)(unsigned) {
  const Call call("hipInit", -1);
  return call.Anyway(static_cast<int>(TheWorld().setting("init")));
}
FAKE(hipRuntimeGetVersion)(int* version) {
  ENTER("hipRuntimeGetVersion", -1);
  *version = 60342134;
  return kSuccess;
}
EXPORT const char* hipGetErrorName(int code) { return RowOf(code).name; }
EXPORT const char* hipGetErrorString(int code) { return RowOf(code).text; }
FAKE(hipGetDeviceCount)(int* count) {
  ENTER("hipGetDeviceCount", -1);
  *count = static_cast<int>(TheWorld().setting("devices"));
  return *count == 0 ? kNoDevice : kSuccess;
}
FAKE(hipSetDevice)(int device) {
  ENTER("hipSetDevice", device);
  current = device;
  return kSuccess;
}
FAKE(hipDeviceGetName)(char* name, int size, int device) {
  ENTER("hipDeviceGetName", device);
  std::snprintf(name, static_cast<size_t>(size), "Fake accelerator");
  return kSuccess;
}
FAKE(hipDeviceGetPCIBusId)(char* name, int size, int device) {
  ENTER("hipDeviceGetPCIBusId", device);
  std::snprintf(name, static_cast<size_t>(size), "0000:%02x:00.0", device + 1);
  return kSuccess;
}
FAKE(hipDeviceTotalMem)(size_t* bytes, int device) {
  ENTER("hipDeviceTotalMem", device);
  *bytes = TheWorld().setting("memory");
  return kSuccess;
}

FAKE(hipDeviceCanAccessPeer)(int* can, int device, int peer) {
  ENTER("hipDeviceCanAccessPeer", device);
  *can = TheWorld().Connects(device, peer) ? 1 : 0;
  return kSuccess;
}
FAKE(hipDeviceEnablePeerAccess)(int peer, unsigned) {
  ENTER("hipDeviceEnablePeerAccess");
  return TheWorld().EnablePeer(current, peer);
}

FAKE(hipMalloc)(void** memory, size_t bytes) {
  ENTER("hipMalloc", current, std::to_string(bytes));
  uint64_t address = 0;
  const int code = TheWorld().Allocate(current, bytes, &address);
  *memory = reinterpret_cast<void*>(address);
  return code;
}
FAKE(hipFree)(void* memory) {
  const Call call("hipFree");
  return call.Anyway(TheWorld().Free(At(memory)));
}
FAKE(hipHostMalloc)(void** memory, size_t bytes, unsigned) {
  ENTER("hipHostMalloc", current, std::to_string(bytes));
  return TheWorld().AllocatePinned(current, memory, bytes);
}
FAKE(hipHostFree)(void* memory) {
  const Call call("hipHostFree");
  return call.Anyway(TheWorld().FreePinned(memory));
}

FAKE(hipStreamCreateWithFlags)(void** stream, unsigned) {
  ENTER("hipStreamCreateWithFlags");
  return TheWorld().MakeStream(current, stream);
}
FAKE(hipStreamDestroy)(void* stream) {
  const Call call("hipStreamDestroy");
  return call.Anyway(TheWorld().DestroyStream(stream));
}
FAKE(hipStreamSynchronize)(void* stream) {
  ENTER("hipStreamSynchronize");
  return TheWorld().Finish(stream);
}
FAKE(hipStreamWaitEvent)(void* stream, void* event, unsigned) {
  ENTER("hipStreamWaitEvent");
  return TheWorld().Follow(stream, event);
}
FAKE(hipEventCreateWithFlags)(void** event, unsigned flags) {
  ENTER("hipEventCreateWithFlags");
  return TheWorld().MakeEvent(current, event, (flags & 2) == 0);
}
FAKE(hipEventDestroy)(void* event) {
  const Call call("hipEventDestroy");
  return call.Anyway(TheWorld().DestroyEvent(event));
}
FAKE(hipEventRecord)(void* event, void* stream) {
  ENTER("hipEventRecord");
  return TheWorld().Record(event, stream);
}
FAKE(hipEventSynchronize)(void* event) {
  ENTER("hipEventSynchronize");
  return TheWorld().Wait(event);
}

FAKE(hipEventQuery)(void* event) {
  ENTER("hipEventQuery");
  return TheWorld().Query(event);
}
FAKE(hipEventElapsedTime)(float* milliseconds, void* from, void* to) {
  ENTER("hipEventElapsedTime");
  return TheWorld().Elapsed(milliseconds, from, to);
}

FAKE(hipMemcpyHtoDAsync)(void* to, const void* from, size_t bytes, void* stream) {
  ENTER("hipMemcpyHtoDAsync", current, std::to_string(bytes));
  return TheWorld().CopyIn(stream, from, At(to), bytes);
}
FAKE(hipMemcpyDtoHAsync)(void* to, void* from, size_t bytes, void* stream) {
  ENTER("hipMemcpyDtoHAsync", current, std::to_string(bytes));
  return TheWorld().CopyOut(stream, At(from), to, bytes);
}
FAKE(hipMemcpyDtoDAsync)(void* to, void* from, size_t bytes, void* stream) {
  ENTER("hipMemcpyDtoDAsync", current, std::to_string(bytes));
  return TheWorld().CopyInside(stream, At(from), At(to), bytes);
}
FAKE(hipMemcpyPeerAsync)(void* to, int to_device, const void* from, int from_device, size_t bytes, void* stream) {
  ENTER("hipMemcpyPeerAsync", current, std::to_string(bytes));
  if (to_device != current) return kInvalidDevice;
  return TheWorld().CopyFromPeer(stream, from_device, At(from), At(to), bytes);
}
FAKE(hipMemsetD8Async)(void* to, unsigned char value, size_t count, void* stream) {
  ENTER("hipMemsetD8Async", current, std::to_string(count));
  return TheWorld().Fill(stream, At(to), value, 1, count);
}
FAKE(hipMemsetD16Async)(void* to, unsigned short value, size_t count, void* stream) {
  ENTER("hipMemsetD16Async", current, std::to_string(count));
  return TheWorld().Fill(stream, At(to), value, 2, count);
}
FAKE(hipMemsetD32Async)(void* to, int value, size_t count, void* stream) {
  ENTER("hipMemsetD32Async", current, std::to_string(count));
  return TheWorld().Fill(stream, At(to), static_cast<uint32_t>(value), 4, count);
}

FAKE(hipStreamBeginCapture)(void* stream, int) {
  ENTER("hipStreamBeginCapture");
  return TheWorld().BeginCapture(stream);
}
FAKE(hipStreamEndCapture)(void* stream, void** graph) {
  // A failure ends it, too, as one of the launches would.
  const Call call("hipStreamEndCapture");
  const int code = TheWorld().EndCapture(stream, graph);
  if (call.code() == kSuccess) return code;
  if (code == kSuccess) TheWorld().DestroyGraph(*graph);
  *graph = nullptr;
  return call.code();
}
FAKE(hipGraphInstantiate)(void** made, void* graph, void**, char*, size_t) {
  ENTER("hipGraphInstantiate");
  return TheWorld().Instantiate(graph, made);
}
FAKE(hipGraphDestroy)(void* graph) {
  const Call call("hipGraphDestroy");
  return call.Anyway(TheWorld().DestroyGraph(graph));
}
FAKE(hipGraphLaunch)(void* graph, void* stream) {
  ENTER("hipGraphLaunch");
  return TheWorld().LaunchGraph(graph, stream);
}
FAKE(hipGraphExecDestroy)(void* graph) {
  const Call call("hipGraphExecDestroy");
  return call.Anyway(TheWorld().DestroyGraph(graph));
}

FAKE(hipModuleLoadData)(void** module, const void* image) {
  ENTER("hipModuleLoadData");
  std::string fault;
  auto program = kiln::testing::LoadCodeObject(image, IrFolder(), fault);
  if (program != nullptr) return TheWorld().Load(current, std::move(program), module);
  std::fprintf(stderr, "fake card: %s\n", fault.c_str());
  return kInvalidImage;
}
FAKE(hipModuleUnload)(void* module) {
  const Call call("hipModuleUnload");
  return call.Anyway(TheWorld().Unload(module));
}
FAKE(hipModuleGetFunction)(void** function, void* module, const char* name) {
  ENTER("hipModuleGetFunction", current, name);
  return TheWorld().Find(module, name, function);
}
FAKE(hipFuncGetAttribute)(int* value, int attribute, void* function) {
  ENTER("hipFuncGetAttribute", current, std::to_string(attribute));
  const Function* found = TheWorld().FunctionAt(function);
  if (found == nullptr) return kInvalidHandle;
  switch (attribute) {
    case 0: *value = static_cast<int>(found->kernel->max_items); return kSuccess;
    case 1: *value = static_cast<int>(found->kernel->static_shared_bytes); return kSuccess;
    case 4: *value = 32; return kSuccess;
    default: return kInvalidValue;
  }
}
FAKE(hipModuleLaunchKernel)(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned x, unsigned y, unsigned z,
                            unsigned shared_bytes, void* stream, void** parameters, void**) {
  const Function* found = TheWorld().FunctionAt(function);
  ENTER("hipModuleLaunchKernel", current, found == nullptr ? "" : found->name);
  return TheWorld().Start(stream, function, {{gx, gy, gz}, {x, y, z}, shared_bytes}, parameters);
}
