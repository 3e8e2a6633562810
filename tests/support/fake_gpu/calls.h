// Bodies of the entry points that vendors' libraries share, on the one world of a fake. Each takes
// the vendor's name of the entry point:
//   FAKE(cuStreamCreate)(void** stream, unsigned) { return MakeStream(__func__, stream); }
#ifndef KILN_TESTS_SUPPORT_FAKE_GPU_CALLS_H_
#define KILN_TESTS_SUPPORT_FAKE_GPU_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

#include "tests/support/fake_gpu/world.h"

#define EXPORT extern "C" __attribute__((visibility("default")))
#define FAKE(name) EXPORT int name
#define ENTER(...)              \
  const Call call(__VA_ARGS__); \
  if (call.code() != 0) return call.code()

namespace kiln::testing::fake_gpu {

// The fake library's world, which is never destroyed.
World& TheWorld();

// The calling thread's current device; -1: none.
int& Current();

// One call of an entry point, with the lock while it lives.
class Call {
 public:
  explicit Call(const char* name, int device = Current(), const std::string& arguments = "")
      : lock_(TheWorld().mutex()), code_(TheWorld().Enter(name, device)) {
    TheWorld().Note(arguments.empty() ? name : std::string(name) + " " + arguments);
  }
  int code() const { return code_; }
  // Of calls that release something: they have done so even if they are to fail, so nothing leaks.
  int Anyway(int done) const { return code_ != kSuccess ? code_ : done; }

 private:
  const std::lock_guard<std::recursive_mutex> lock_;
  const int code_;
};

int Init(const char* name);
int NameDevice(const char* name, char* text, int size, int device, const char* product);
int TotalMemory(const char* name, size_t* bytes, int device);
int CanAccessPeer(const char* name, int* can, int device, int peer);

int Allocate(const char* name, uint64_t* address, size_t bytes);
int Free(const char* name, uint64_t address);
int AllocateHost(const char* name, void** memory, size_t bytes);
int FreeHost(const char* name, void* memory);

int MakeStream(const char* name, void** stream);
int DestroyStream(const char* name, void* stream);
int FinishStream(const char* name, void* stream);
int Follow(const char* name, void* stream, void* event);
int MakeEvent(const char* name, void** event, unsigned flags);
int DestroyEvent(const char* name, void* event);
int Record(const char* name, void* event, void* stream);
int WaitForEvent(const char* name, void* event);
int QueryEvent(const char* name, void* event);
int ElapsedTime(const char* name, float* milliseconds, void* from, void* to);

int CopyIn(const char* name, uint64_t to, const void* from, size_t bytes, void* stream);
int CopyOut(const char* name, void* to, uint64_t from, size_t bytes, void* stream);
int CopyInside(const char* name, uint64_t to, uint64_t from, size_t bytes, void* stream);
int Fill(const char* name, uint64_t to, uint32_t value, uint32_t value_bytes, size_t count, void* stream);

int BeginCapture(const char* name, void* stream);
int EndCapture(const char* name, void* stream, void** graph);
int Instantiate(const char* name, void** made, void* graph);
int DestroyGraph(const char* name, void* graph);
int LaunchGraph(const char* name, void* graph, void* stream);

int UnloadModule(const char* name, void* module);
int FindFunction(const char* name, void** function, void* module, const char* symbol);
int FunctionAttribute(const char* name, int* value, int attribute, void* function);
int StartKernel(const char* name, void* function, const Launch& shape, void* stream, void** parameters);

}  // namespace kiln::testing::fake_gpu

#endif  // KILN_TESTS_SUPPORT_FAKE_GPU_CALLS_H_
