#include "tests/support/fake_gpu/calls.h"

#include <cstdio>

namespace kiln::testing::fake_gpu {

World& TheWorld() {
  static auto* const world = new World();
  return *world;
}

int& Current() {
  thread_local int current = -1;
  return current;
}

int Init(const char* name) {
  const Call call(name, -1);
  return call.Anyway(static_cast<int>(TheWorld().setting("init")));
}

int NameDevice(const char* name, char* text, int size, int device, const char* product) {
  ENTER(name, device);
  std::snprintf(text, static_cast<size_t>(size), "%s", product);
  return kSuccess;
}

int TotalMemory(const char* name, size_t* bytes, int device) {
  ENTER(name, device);
  *bytes = TheWorld().setting("memory");
  return kSuccess;
}

int CanAccessPeer(const char* name, int* can, int device, int peer) {
  ENTER(name, device);
  *can = TheWorld().Connects(device, peer) ? 1 : 0;
  return kSuccess;
}

int Allocate(const char* name, uint64_t* address, size_t bytes) {
  ENTER(name, Current(), std::to_string(bytes));
  return TheWorld().Allocate(Current(), bytes, address);
}

int Free(const char* name, uint64_t address) {
  const Call call(name);
  return call.Anyway(TheWorld().Free(address));
}

int AllocateHost(const char* name, void** memory, size_t bytes) {
  ENTER(name, Current(), std::to_string(bytes));
  return TheWorld().AllocatePinned(Current(), memory, bytes);
}

int FreeHost(const char* name, void* memory) {
  const Call call(name);
  return call.Anyway(TheWorld().FreePinned(memory));
}

int MakeStream(const char* name, void** stream) {
  ENTER(name);
  return TheWorld().MakeStream(Current(), stream);
}

int DestroyStream(const char* name, void* stream) {
  const Call call(name);
  return call.Anyway(TheWorld().DestroyStream(stream));
}

int FinishStream(const char* name, void* stream) {
  ENTER(name);
  return TheWorld().Finish(stream);
}

int Follow(const char* name, void* stream, void* event) {
  ENTER(name);
  return TheWorld().Follow(stream, event);
}

int MakeEvent(const char* name, void** event, unsigned flags) {
  constexpr unsigned kDisableTiming = 2;
  ENTER(name);
  return TheWorld().MakeEvent(Current(), event, (flags & kDisableTiming) == 0);
}

int DestroyEvent(const char* name, void* event) {
  const Call call(name);
  return call.Anyway(TheWorld().DestroyEvent(event));
}

int Record(const char* name, void* event, void* stream) {
  ENTER(name);
  return TheWorld().Record(event, stream);
}

int WaitForEvent(const char* name, void* event) {
  ENTER(name);
  return TheWorld().Wait(event);
}

int QueryEvent(const char* name, void* event) {
  ENTER(name);
  return TheWorld().Query(event);
}

int ElapsedTime(const char* name, float* milliseconds, void* from, void* to) {
  ENTER(name);
  return TheWorld().Elapsed(milliseconds, from, to);
}

int CopyIn(const char* name, uint64_t to, const void* from, size_t bytes, void* stream) {
  ENTER(name, Current(), std::to_string(bytes));
  return TheWorld().CopyIn(stream, from, to, bytes);
}

int CopyOut(const char* name, void* to, uint64_t from, size_t bytes, void* stream) {
  ENTER(name, Current(), std::to_string(bytes));
  return TheWorld().CopyOut(stream, from, to, bytes);
}

int CopyInside(const char* name, uint64_t to, uint64_t from, size_t bytes, void* stream) {
  ENTER(name, Current(), std::to_string(bytes));
  return TheWorld().CopyInside(stream, from, to, bytes);
}

int Fill(const char* name, uint64_t to, uint32_t value, uint32_t value_bytes, size_t count, void* stream) {
  ENTER(name, Current(), std::to_string(count));
  return TheWorld().Fill(stream, to, value, value_bytes, count);
}

int BeginCapture(const char* name, void* stream) {
  ENTER(name);
  return TheWorld().BeginCapture(stream);
}

int EndCapture(const char* name, void* stream, void** graph) {
  // A failure ends the capture, too, as a failed launch would.
  const Call call(name);
  const int code = TheWorld().EndCapture(stream, graph);
  if (call.code() == kSuccess) return code;
  if (code == kSuccess) TheWorld().DestroyGraph(*graph);
  *graph = nullptr;
  return call.code();
}

int Instantiate(const char* name, void** made, void* graph) {
  ENTER(name);
  return TheWorld().Instantiate(graph, made);
}

int DestroyGraph(const char* name, void* graph) {
  const Call call(name);
  return call.Anyway(TheWorld().DestroyGraph(graph));
}

int LaunchGraph(const char* name, void* graph, void* stream) {
  ENTER(name);
  return TheWorld().LaunchGraph(graph, stream);
}

int UnloadModule(const char* name, void* module) {
  const Call call(name);
  return call.Anyway(TheWorld().Unload(module));
}

int FindFunction(const char* name, void** function, void* module, const char* symbol) {
  ENTER(name, Current(), symbol);
  return TheWorld().Find(module, symbol, function);
}

int FunctionAttribute(const char* name, int* value, int attribute, void* function) {
  ENTER(name, Current(), std::to_string(attribute));
  const Function* found = TheWorld().FunctionAt(function);
  if (found == nullptr) return kInvalidHandle;
  switch (attribute) {
    case 0: *value = static_cast<int>(found->kernel->max_items); return kSuccess;
    case 1: *value = static_cast<int>(found->kernel->static_shared_bytes); return kSuccess;
    case 4: *value = 32; return kSuccess;  // registers
    default: return kInvalidValue;
  }
}

int StartKernel(const char* name, void* function, const Launch& shape, void* stream, void** parameters) {
  const Function* found = TheWorld().FunctionAt(function);
  ENTER(name, Current(), found == nullptr ? "" : found->name);
  return TheWorld().Start(stream, function, shape, parameters);
}

}  // namespace kiln::testing::fake_gpu
