// What the interpreter computes, in which order.
//
// Storage changes while a program runs: it is in state k once its first k STOREs
// have happened, in the order of a walk from the root, sources first. So what a
// movement chain over storage gives is not named by its node alone, but by (node,
// state). Reads see state 0 unless they are behind an AFTER: then they see the
// last STORE to their storage that its deps reach, and all before it. Storage in
// state k is one more value: its k-th STORE applied to it in state k - 1. So a
// program with memory becomes a plain list of tasks without any.
#ifndef KILN_COMPILER_INTERP_PLAN_H_
#define KILN_COMPILER_INTERP_PLAN_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"
#include "compiler/structure/kernel_call.h"

namespace kiln::compiler {

struct Task {
  enum class Kind : uint8_t {
    kValue,    // what `uop` evaluates to
    kAddress,  // for a movement chain over storage: each element's place there
    kStored,   // storage after STORE `uop`: sources are before, address, value, gate?
    kCalled,   // storage after CALL `uop`, as `slot` of its body: sources are its arguments
    kSame,     // its one source
  };
  Kind kind = Kind::kValue;
  UOp* uop = nullptr;
  std::vector<uint32_t> sources;  // earlier tasks
  uint32_t slot = 0;
};

// The storage of one slot: a PARAM or a BUFFER of the caller's.
struct Slot {
  UOp* storage = nullptr;
  std::vector<UOp*> stores;  // all that write to it, CALLs too, in order
  uint32_t final_task = 0;
};

class Plan {
 public:
  // Reads the program under `root`. UNSUPPORTED_OP for what is no tensor-level
  // program; BAD_ROOT, BAD_ARGUMENT as Compile has them.
  absl::Status Build(UOp* root);

  const std::vector<Task>& tasks() const { return tasks_; }
  const std::map<uint32_t, Slot>& slots() const { return slots_; }
  // The task of each of the root's values, in order.
  const std::vector<uint32_t>& results() const { return results_; }
  // What a kCalled task's CALL binds: its sources, in this order.
  const KernelCall& CallOf(const UOp* call) const { return calls_.at(call); }

 private:
  struct Key {
    Task::Kind kind;
    UOp* uop;
    size_t state;  // of the storage under `uop`; 0 if it is no movement chain
    bool operator==(const Key&) const = default;
    template <typename H>
    friend H AbslHashValue(H h, const Key& key) {
      return H::combine(std::move(h), key.kind, key.uop, key.state);
    }
  };

  absl::Status FindStorage(absl::Span<UOp* const> order);
  absl::Status FindStores(UOp* uop);
  absl::Status PlanRoot(UOp* root);
  // Plans `key` and all it needs; returns its task.
  absl::StatusOr<uint32_t> Add(const Key& key);
  absl::StatusOr<std::vector<Key>> SourcesOf(const Key& key);
  absl::StatusOr<std::vector<Key>> ValueSources(const Key& key);
  absl::StatusOr<std::vector<Key>> AddressSources(const Key& key);

  // The sources of storage in the state that its `state`-th STORE or CALL makes.
  std::vector<Key> StateSources(UOp* storage, size_t state);
  void NameTask(const Key& key, Task& task);

  // The one PARAM or BUFFER that stands for the storage under a movement chain,
  // or nullptr.
  UOp* StorageUnder(UOp* uop) const;
  Slot& SlotOf(UOp* storage);
  // The state in which AFTER `uop` shows the storage under it.
  size_t StateBehind(UOp* uop);

  std::vector<Task> tasks_;
  std::map<uint32_t, Slot> slots_;
  std::vector<uint32_t> results_;
  absl::flat_hash_map<Key, uint32_t> planned_;
  absl::flat_hash_map<const UOp*, KernelCall> calls_;
};

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_INTERP_PLAN_H_
