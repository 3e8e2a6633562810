// The threads of one group while they run.
#ifndef KILN_TESTS_SUPPORT_PTX_GROUP_H_
#define KILN_TESTS_SUPPORT_PTX_GROUP_H_

#include <array>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tests/support/ptx/program.h"
#include "tests/support/ptx/proxies.h"
#include "tests/support/ptx/races.h"
#include "tests/support/ptx/tensor_map.h"

namespace kiln::testing::ptx {

// What may be accessed of the host's memory.
class Memory {
 public:
  explicit Memory(std::vector<Range> ranges);
  // Null if any of the bytes is outside, or may not be written.
  char* Find(uint64_t address, uint64_t bytes, bool write);

 private:
  std::vector<Range> ranges_;
  size_t last_ = 0;  // the one that served last
};

// An asynchronous copy whose bytes have not come yet.
struct Copy {
  uint64_t to = 0, from = 0;
  uint32_t bytes = 0, source_bytes = 0;  // zeros follow
};

struct Thread;

// A box that the copy engine has yet to bring.
struct BulkCopy {
  Thread* thread = nullptr;
  uint64_t to = 0, mbarrier = 0;  // in shared memory
  TensorMap map;
  std::array<int32_t, 5> at = {};
  uint32_t bytes = 0;
};

// Registers of four warps that the tensor cores sum up in. Threads find a pattern in them meanwhile.
struct Accumulators {
  std::vector<uint32_t> slots;  // of each thread
  std::vector<float> values;    // of thread after thread
  size_t products = 0;          // that are under way
};

// Four warps that multiply together.
struct WarpGroup {
  struct Product {
    const Instruction* instruction;
    uint64_t a, b;
    bool adds;
    Accumulators* to;
  };
  std::deque<std::vector<Product>> products = {{}};  // groups in order; the last is open
  std::list<Accumulators> accumulators;              // those in use
  bool fenced = false;                               // registers are the tensor cores' to use
};

struct Thread {
  enum class State { kRuns, kYields, kAtCollective, kAtWarpGroup, kAtBarrier, kDone };
  State state = State::kRuns;
  uint32_t number = 0;  // in the group
  uint32_t pc = 0;
  uint64_t* slots = nullptr;
  char* local = nullptr;
  std::vector<std::vector<Copy>> copies = {{}};  // groups in order; the last is open
  uint32_t barrier = 0, barrier_count = 0;       // what it waits at
  std::vector<char*> mbarriers;                  // which it has initialized, and not fenced
};

// The last two: by the copy engine or the tensor cores.
enum class Use { kRead, kWrite, kAtomic, kEngineRead, kEngineWrite };

struct Group {
  const Function* function = nullptr;
  const LaunchShape* shape = nullptr;
  std::array<uint32_t, 3> number = {};
  const char* parameters = nullptr;
  Memory* memory = nullptr;
  uint64_t budget = 0;  // instructions that are left, of the whole launch
  std::vector<char> shared;
  std::vector<Thread> threads;
  std::vector<uint64_t> slots;
  std::vector<char> local;
  std::array<uint32_t, 16> arrived = {};  // at each barrier
  Races races;                            // in shared memory
  GlobalRaces global_races;
  Proxies proxies;  // of shared memory
  std::deque<BulkCopy> bulk_copies;
  std::vector<WarpGroup> warp_groups;
  absl::Status failure;

  // Where `bytes` at `address` are, or null after a failure.
  char* Locate(Thread& thread, Space space, uint64_t address, uint32_t bytes, Use use);
  // Always false.
  bool Fail(const Thread& thread, absl::string_view what);
  bool Fail(const Thread& thread, absl::StatusCode code, absl::string_view what);
  // A barrier, or what is like one, of the group or of a warp.
  void EndEpoch();
  void EndWarpEpoch(uint32_t warp);

 private:
  // Fails if a use of `bytes` from number `first` on, at `address`, races with one before.
  bool Race(const Thread& thread, Races& watch, uint64_t first, uint64_t address, uint32_t bytes, Use use);
};

// Until the thread ends, waits or fails.
void RunThread(Group& group, Thread& thread);
// All threads of the group to their ends.
absl::Status RunGroup(Group& group);
// A new group `number`: fresh memory, all threads at their beginning.
void BeginGroup(Group& group, const std::array<uint32_t, 3>& number);

// cp.async, and its waiting.
bool BeginCopy(Group& group, Thread& thread, const Instruction& instruction);
bool FinishCopies(Group& group, Thread& thread, size_t max_open);

// cp.async.bulk.tensor. Boxes come as late as may be: when no thread can go on without.
bool BeginBulkCopy(Group& group, Thread& thread, const Instruction& instruction);
bool FinishOldestBulkCopy(Group& group);

}  // namespace kiln::testing::ptx

#endif  // KILN_TESTS_SUPPORT_PTX_GROUP_H_
