// What a running program holds: a cell for each lane of each value of each item,
// and memory.
#ifndef KILN_COMPILER_INTERP_PROGRAM_STATE_H_
#define KILN_COMPILER_INTERP_PROGRAM_STATE_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/ir/uop.h"

namespace kiln::compiler {

// A listing: an instruction where it stands. Its value is its own, whatever else
// lists the same node.
struct ProgramStep {
  UOp* uop = nullptr;
  int64_t lanes = 1;
  std::vector<int64_t> sources;  // the listings that its sources' values are of; kNoListing for storage and CONSTs
  size_t closed_by = 0;          // of a RANGE or IF: its END or ENDIF
};
inline constexpr int64_t kNoListing = -1;

// Where a pointer outside its storage points.
inline constexpr uint64_t kNowhere = ~uint64_t{0};

// One storage, one cell an element; of REG for all items, one after the other.
struct ProgramMemory {
  int64_t elements = 0;  // of one item
  std::vector<uint64_t> cells;
};

struct ProgramState {
  int64_t items = 1;
  std::vector<ProgramStep> steps;
  std::vector<std::vector<uint64_t>> values;  // by step: items * lanes
  std::vector<uint8_t> active;                // by item
  absl::flat_hash_map<const UOp*, ProgramMemory> memory;
  int64_t group[3] = {0, 0, 0};
  int64_t group_items[3] = {1, 1, 1};

  // Lane `lane` of the value that source `k` of `step` has for `item`; a scalar
  // has the same in every lane.
  uint64_t Value(const ProgramStep& step, size_t k, int64_t item, int64_t lane) const;
  int64_t LanesOf(const ProgramStep& step, size_t k) const;
};

// Runs a step that is no loop and no IF for all active items.
void RunStep(ProgramState& state, size_t step);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_INTERP_PROGRAM_STATE_H_
