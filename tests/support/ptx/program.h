// PTX as the machine runs it: names are slots, opcodes are functions.
//
// A thread has one array of 64-bit slots. Registers, constants, addresses of variables and special
// registers are all slots of it, so an instruction is a function and a few numbers. A slot holds its
// value zero-extended from the register's width.
#ifndef KILN_TESTS_SUPPORT_PTX_PROGRAM_H_
#define KILN_TESTS_SUPPORT_PTX_PROGRAM_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/ptx/machine.h"
#include "tests/support/ptx/syntax/syntax.h"

namespace kiln::testing::ptx {

struct Instruction;

// What an instruction does that needs no more than its thread's registers.
using Alu = void (*)(uint64_t* slots, const Instruction& instruction);

enum class Kind : uint8_t {
  kAlu,
  kLoad,
  kStore,
  kAtomic,
  kBranch,
  kIndexedBranch,
  kExit,
  kTrap,
  kNothing,       // fences: threads run one after the other, so all is visible
  kBarrier,       // waits for others of the group
  kArrive,        // is counted, and goes on
  kWarp,          // computed when all lanes that take part are there
  kCopy,          // cp.async
  kCommitCopies,  // ends a group of them
  kWaitCopies,    // until at most `offset` groups are open
  kMbarrier,
  kBulkCopy,    // cp.async.bulk.tensor
  kProxyFence,  // fence.proxy.async
  kFenceMbarriers,
  kWarpGroup,  // computed when four warps are there
};

struct Group;  // threads that run, group.h
struct Thread;

// The lanes of a warp that take part in an instruction, by number; null for those that do not.
using Lanes = std::array<Thread*, 32>;
// False if the group has failed.
using Collective = bool (*)(Group& group, const Lanes& lanes, const Instruction& instruction);
// Of four warps, of which `first` is the first thread; false if the group has failed.
using WarpGroupUse = bool (*)(Group& group, Thread& first, const Instruction& instruction);
// What memory held at `place`, which changes.
using Atomic = uint64_t (*)(char* place, uint64_t b, uint64_t c);
// Of one thread and an mbarrier in shared memory; false if the thread has to come again.
using BarrierUse = bool (*)(Group& group, Thread& thread, const Instruction& instruction, char* place);

struct Instruction {
  Kind kind = Kind::kAlu;
  Space space = Space::kGeneric;
  bool guard_negated = false;
  bool is_signed = false;   // a load's elements are
  uint8_t bytes = 0;        // of an element in memory
  uint8_t count = 1;        // of elements
  uint8_t result_bits = 0;  // of the register that is written
  bool aligned = false;     // the whole warp has to take part
  uint32_t guard = 0;       // slot of the predicate; slot 0 is always true
  std::array<uint32_t, 6> at = {};
  // More slots than `at` has: where they begin in Function::lists.
  uint32_t list = 0;
  int64_t offset = 0;   // of an address; else a number that belongs to the opcode
  uint32_t target = 0;  // of a branch
  Alu alu = nullptr;
  Collective collective = nullptr;
  Atomic atomic = nullptr;
  BarrierUse barrier_use = nullptr;
  WarpGroupUse warp_group_use = nullptr;
};

enum Slot : uint32_t { kTrueSlot, kCarrySlot, kSinkSlot, kFirstFreeSlot };

enum class Special : uint8_t { kItem, kItems, kGroup, kGroups, kLane, kWarp, kWarps, kLanesBelow };

struct SpecialSlot {
  uint32_t slot;
  Special special;
  uint8_t axis;
};

struct Function {
  Module::Entry entry;
  std::vector<uint64_t> slots;  // what a thread begins with
  std::vector<SpecialSlot> specials;
  std::vector<Instruction> code;  // ends with kExit
  std::vector<uint32_t> lists;
  std::vector<std::vector<uint32_t>> tables;  // of indexed branches
  std::vector<std::string> texts;             // of `code`
  std::vector<uint32_t> parameter_offsets;
  uint32_t parameter_bytes = 0, local_bytes = 0;
  bool meets = false;        // threads wait for each other
  bool has_engines = false;  // the copy engine or the tensor cores use shared memory by themselves
};

struct Storage {
  std::unique_ptr<char[]> owner;
  Range range;
};

struct Program {
  std::map<std::string, std::unique_ptr<Function>> functions;
  std::map<std::string, Storage> variables;
};

absl::StatusOr<std::unique_ptr<Program>> Decode(const ModuleText& text);

// Generic addresses of these spaces; those of the host's memory are below.
inline constexpr uint64_t kSharedWindow = uint64_t{1} << 60, kLocalWindow = uint64_t{2} << 60,
                          kParamWindow = uint64_t{3} << 60, kWindowBytes = uint64_t{1} << 32;

// Every byte of memory that nothing was written to: NaN as a float of any width.
inline constexpr char kUnwritten = '\xff';

}  // namespace kiln::testing::ptx

#endif  // KILN_TESTS_SUPPORT_PTX_PROGRAM_H_
