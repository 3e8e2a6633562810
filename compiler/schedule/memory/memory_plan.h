// The memory plan: every intermediate buffer of a call list gets a place in one
// arena, shared by buffers that are never alive together.
#ifndef KILN_COMPILER_SCHEDULE_MEMORY_MEMORY_PLAN_H_
#define KILN_COMPILER_SCHEDULE_MEMORY_MEMORY_PLAN_H_

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "compiler/ir/graph.h"

namespace kiln::compiler {

inline constexpr int64_t kArenaAlignment = 64;

struct MemoryPlan {
  absl::flat_hash_map<UOp*, int64_t> offsets;  // of each intermediate BUFFER, in bytes
  int64_t arena_bytes = 0;
  // The most that is alive during one call: no plan takes less.
  int64_t alive_bytes = 0;
};

// `linear`: the LINEAR of CALLs. `external`: BUFFERs that live elsewhere (the
// results). A buffer is alive from the first call that has it to the last.
// Largest first, each at the lowest offset that is free for its whole life.
MemoryPlan PlanMemory(const UOp* linear, const absl::flat_hash_set<UOp*>& external);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_SCHEDULE_MEMORY_MEMORY_PLAN_H_
