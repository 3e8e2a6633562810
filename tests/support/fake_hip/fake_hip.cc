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

#include "tests/support/fake_gpu/calls.h"
#include "tests/support/fake_hip/code_object_program.h"

namespace {

using namespace kiln::testing::fake_gpu;

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

EXPORT const char* KilnFake(const char* command) {
  const std::lock_guard<std::recursive_mutex> lock(TheWorld().mutex());
  const std::string text = command;
  if (text.rfind("ir ", 0) != 0) return TheWorld().Control(text);
  IrFolder() = text.substr(3);
  return "";
}

FAKE(hipInit)(unsigned) { return Init(__func__); }
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
  Current() = device;
  return kSuccess;
}
FAKE(hipDeviceGetName)(char* name, int size, int device) {
  return NameDevice(__func__, name, size, device, "Fake accelerator");
}
FAKE(hipDeviceGetPCIBusId)(char* name, int size, int device) {
  ENTER("hipDeviceGetPCIBusId", device);
  std::snprintf(name, static_cast<size_t>(size), "0000:%02x:00.0", device + 1);
  return kSuccess;
}
FAKE(hipDeviceTotalMem)(size_t* bytes, int device) { return TotalMemory(__func__, bytes, device); }

FAKE(hipDeviceCanAccessPeer)(int* can, int device, int peer) { return CanAccessPeer(__func__, can, device, peer); }
FAKE(hipDeviceEnablePeerAccess)(int peer, unsigned) {
  ENTER("hipDeviceEnablePeerAccess");
  return TheWorld().EnablePeer(Current(), peer);
}

FAKE(hipMalloc)(void** memory, size_t bytes) {
  uint64_t address = 0;
  const int code = Allocate(__func__, &address, bytes);
  *memory = reinterpret_cast<void*>(address);
  return code;
}
FAKE(hipFree)(void* memory) { return Free(__func__, At(memory)); }
FAKE(hipHostMalloc)(void** memory, size_t bytes, unsigned) { return AllocateHost(__func__, memory, bytes); }
FAKE(hipHostFree)(void* memory) { return FreeHost(__func__, memory); }

FAKE(hipStreamCreateWithFlags)(void** stream, unsigned) { return MakeStream(__func__, stream); }
FAKE(hipStreamDestroy)(void* stream) { return DestroyStream(__func__, stream); }
FAKE(hipStreamSynchronize)(void* stream) { return FinishStream(__func__, stream); }
FAKE(hipStreamWaitEvent)(void* stream, void* event, unsigned) { return Follow(__func__, stream, event); }
FAKE(hipEventCreateWithFlags)(void** event, unsigned flags) { return MakeEvent(__func__, event, flags); }
FAKE(hipEventDestroy)(void* event) { return DestroyEvent(__func__, event); }
FAKE(hipEventRecord)(void* event, void* stream) { return Record(__func__, event, stream); }
FAKE(hipEventSynchronize)(void* event) { return WaitForEvent(__func__, event); }

FAKE(hipEventQuery)(void* event) { return QueryEvent(__func__, event); }
FAKE(hipEventElapsedTime)(float* milliseconds, void* from, void* to) {
  return ElapsedTime(__func__, milliseconds, from, to);
}

FAKE(hipMemcpyHtoDAsync)(void* to, const void* from, size_t bytes, void* stream) {
  return CopyIn(__func__, At(to), from, bytes, stream);
}
FAKE(hipMemcpyDtoHAsync)(void* to, void* from, size_t bytes, void* stream) {
  return CopyOut(__func__, to, At(from), bytes, stream);
}
FAKE(hipMemcpyDtoDAsync)(void* to, void* from, size_t bytes, void* stream) {
  return CopyInside(__func__, At(to), At(from), bytes, stream);
}
FAKE(hipMemcpyPeerAsync)(void* to, int to_device, const void* from, int from_device, size_t bytes, void* stream) {
  ENTER("hipMemcpyPeerAsync", Current(), std::to_string(bytes));
  if (to_device != Current()) return kInvalidDevice;
  return TheWorld().CopyFromPeer(stream, from_device, At(from), At(to), bytes);
}
FAKE(hipMemsetD8Async)(void* to, unsigned char value, size_t count, void* stream) {
  return Fill(__func__, At(to), value, 1, count, stream);
}
FAKE(hipMemsetD16Async)(void* to, unsigned short value, size_t count, void* stream) {
  return Fill(__func__, At(to), value, 2, count, stream);
}
FAKE(hipMemsetD32Async)(void* to, int value, size_t count, void* stream) {
  return Fill(__func__, At(to), static_cast<uint32_t>(value), 4, count, stream);
}

FAKE(hipStreamBeginCapture)(void* stream, int) { return BeginCapture(__func__, stream); }
FAKE(hipStreamEndCapture)(void* stream, void** graph) { return EndCapture(__func__, stream, graph); }
FAKE(hipGraphInstantiate)(void** made, void* graph, void**, char*, size_t) {
  return Instantiate(__func__, made, graph);
}
FAKE(hipGraphDestroy)(void* graph) { return DestroyGraph(__func__, graph); }
FAKE(hipGraphLaunch)(void* graph, void* stream) { return LaunchGraph(__func__, graph, stream); }
FAKE(hipGraphExecDestroy)(void* graph) { return DestroyGraph(__func__, graph); }

FAKE(hipModuleLoadData)(void** module, const void* image) {
  ENTER("hipModuleLoadData");
  std::string fault;
  auto program = kiln::testing::LoadCodeObject(image, IrFolder(), fault);
  if (program != nullptr) return TheWorld().Load(Current(), std::move(program), module);
  std::fprintf(stderr, "fake card: %s\n", fault.c_str());
  return kInvalidImage;
}
FAKE(hipModuleUnload)(void* module) { return UnloadModule(__func__, module); }
FAKE(hipModuleGetFunction)(void** function, void* module, const char* name) {
  return FindFunction(__func__, function, module, name);
}
FAKE(hipFuncGetAttribute)(int* value, int attribute, void* function) {
  return FunctionAttribute(__func__, value, attribute, function);
}
FAKE(hipModuleLaunchKernel)(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned x, unsigned y, unsigned z,
                            unsigned shared_bytes, void* stream, void** parameters, void**) {
  return StartKernel(__func__, function, {{gx, gy, gz}, {x, y, z}, shared_bytes}, stream, parameters);
}
