// GPUs that are not there: what the fakes of the vendors' libraries have in common.
//
// Memory is the host's, and not to be touched but by what the library is asked for: whoever else
// reads or writes it dies of that. A stream does nothing until somebody waits for it, so that who
// does not wait sees what was there before. Every call is written down, and any can be made to
// fail. One command line (Control) sets all that up from the test, or from $KILN_FAKE_GPU in a
// process of its own.
#ifndef KILN_TESTS_SUPPORT_FAKE_GPU_WORLD_H_
#define KILN_TESTS_SUPPORT_FAKE_GPU_WORLD_H_

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace kiln::testing::fake_gpu {

// Errors that both vendors number alike.
enum Code : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kInvalidHandle = 400,
  kNotFound = 500,
  kNotReady = 600,
  kPeerAccessAlreadyEnabled = 704,
  kIllegalAddress = 700,
  kLaunchFailed = 719,
};
bool IsLoss(int code);

// Memory of one device, as a kernel may use it.
struct Range {
  uint64_t begin = 0;
  uint64_t bytes = 0;
};

struct Launch {
  std::array<uint32_t, 3> groups = {};
  std::array<uint32_t, 3> items = {};
  uint32_t dynamic_shared_bytes = 0;
};

// Code that was loaded.
class Program {
 public:
  virtual ~Program() = default;
  struct Kernel {
    std::vector<uint32_t> parameter_bytes;  // empty where the code does not say
    uint32_t max_items = 1024;
    uint32_t static_shared_bytes = 0;
  };
  // Null if there is none of that name. It stays where it is.
  virtual const Kernel* Find(const std::string& name) const = 0;
  // kSuccess or what came of it.
  virtual int Run(const std::string& name, const Launch& launch, const std::vector<std::vector<char>>& parameters,
                  const std::vector<Range>& memory) const = 0;
};

struct Stream;
struct Event {
  int device = 0;
  bool timed = false;
  std::shared_ptr<Stream> stream;  // where it was recorded last; null before that
  uint64_t after = 0;              // and after how many of its operations
};
struct Stream {
  int device = 0;
  std::deque<std::function<int()>> waiting;
  uint64_t done = 0;
  uint64_t asked = 0;
  bool captures = false;
  std::vector<std::function<int()>> captured;
};
// Of both stages: what was captured, and what can be launched.
struct Graph {
  int device = 0;
  std::vector<std::function<int()>> operations;
};
struct Module {
  int device = 0;
  std::unique_ptr<Program> program;
};
struct Function {
  Module* module = nullptr;
  std::string name;
  const Program::Kernel* kernel = nullptr;
};

// All state of one library. Every exported function takes the lock, and is written down first:
//   const Call call(world, "cuMemAlloc_v2");
//   if (call.failed()) return call.code();
class World {
 public:
  World();

  std::recursive_mutex& mutex() { return mutex_; }

  // "set NAME NUMBER", "fail NAME N CODE" (the Nth call of that name from now on; of "any", of
  // all that can fail), "lose DEVICE CODE", "forget DEVICE" (what a lost one held: the process is
  // to be without it), "calls" (one a line), "count" (of those that can
  // fail), "live" (what is held, by kind: 0 of all if nothing is), "reset". The answer stays until
  // the next command.
  const char* Control(const std::string& command);

  // Of "set": devices, memory (bytes of each), and whatever the vendor's fake reads.
  uint64_t setting(const std::string& name) const;

  // What a call that can fail comes to before it has done anything; 0: it goes on.
  int Enter(const std::string& call, int device);
  void Note(const std::string& line);

  int Allocate(int device, uint64_t bytes, uint64_t* address);
  int Free(uint64_t address);
  int AllocatePinned(int device, void** memory, uint64_t bytes);
  int FreePinned(void* memory);
  // Whether all of it is one device's memory.
  bool Owns(int device, uint64_t address, uint64_t bytes) const;

  int MakeStream(int device, void** stream);
  int MakeEvent(int device, void** event, bool timed = false);
  int DestroyStream(void* stream);
  int DestroyEvent(void* event);
  int Record(void* event, void* stream);
  int Follow(void* stream, void* event);
  int Finish(void* stream);
  int Wait(void* event);
  int Query(void* event);
  // How many operations lie between two that were recorded in one stream, and may be timed: a
  // millisecond each.
  int Elapsed(float* milliseconds, void* from, void* to);
  // Each stream comes so far before `work` is done, once, with the memory of all their devices at
  // hand; then they go on. Never, while "set hang 1"; nor is it once it is aborted.
  void Together(const std::vector<void*>& streams, std::shared_ptr<bool> aborted, std::function<int()> work);
  void HoldCommunicators(int count) { communicators_ += count; }

  int BeginCapture(void* stream);
  int EndCapture(void* stream, void** graph);
  int Instantiate(void* graph, void** made);
  int DestroyGraph(void* graph);
  int LaunchGraph(void* graph, void* stream);

  // Device memory on both sides but for the host's, which is pinned.
  int CopyIn(void* stream, const void* from, uint64_t to, uint64_t bytes);
  int CopyOut(void* stream, uint64_t from, void* to, uint64_t bytes);
  int CopyInside(void* stream, uint64_t from, uint64_t to, uint64_t bytes);
  int CopyFromPeer(void* stream, int peer, uint64_t from, uint64_t to, uint64_t bytes);
  int Fill(void* stream, uint64_t to, uint32_t value, uint32_t value_bytes, uint64_t count);

  int Load(int device, std::unique_ptr<Program> program, void** module);
  int Unload(void* module);
  int Find(void* module, const std::string& name, void** function);
  const Function* FunctionAt(void* function) const;
  int Start(void* stream, void* function, const Launch& launch, void** parameters);

  // Whether the hardware connects two devices: "set no_peers 1" says no.
  bool Connects(int device, int peer) const { return device != peer && setting("no_peers") == 0; }
  int EnablePeer(int device, int peer);

  // The card's primary context, taken and given back.
  void Retain(int device) { ++contexts_[device]; }
  void Release(int device);

 private:
  struct Block {
    int device = 0;
    uint64_t bytes = 0;     // as asked for
    uint64_t reserved = 0;  // in pages
  };
  struct Pinned {
    int device = 0;
    std::unique_ptr<char[]> bytes;
  };
  // Has a device's memory readable and writable while it lives.
  class Open;

  void Reset();
  std::string Live() const;
  std::shared_ptr<Stream> StreamAt(void* stream) const;
  int Ask(void* stream, std::function<int()> operation);
  int RunUntil(Stream& stream, uint64_t count);
  int Lose(int device, int code);
  void Forget(int device);

  std::recursive_mutex mutex_;
  std::map<std::string, uint64_t> settings_;
  std::map<int, int> lost_;                                  // by device, the code
  std::map<std::string, std::map<uint64_t, int>> failures_;  // by call, and its number among those
  std::map<std::string, uint64_t> counts_;
  std::vector<std::string> calls_;
  std::string answer_;
  std::map<uint64_t, Block> blocks_;
  std::map<int, int> contexts_;
  int communicators_ = 0;
  std::set<std::pair<int, int>> enabled_peers_;
  std::map<void*, Pinned> pinned_;
  std::map<void*, std::shared_ptr<Stream>> streams_;
  std::map<void*, std::shared_ptr<Event>> events_;
  std::map<void*, std::unique_ptr<Graph>> graphs_;
  std::map<void*, std::unique_ptr<Module>> modules_;
  std::map<void*, std::unique_ptr<Function>> functions_;
};

}  // namespace kiln::testing::fake_gpu

#endif  // KILN_TESTS_SUPPORT_FAKE_GPU_WORLD_H_
