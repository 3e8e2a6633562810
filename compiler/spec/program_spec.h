// What is legal in a program: the instructions of a LINEAR, each run once by
// every work item of every work group, in order.
//
// A program comes from outside and may be hostile, so this is where it is known
// to be harmless in shape: every value is there before it is used, loops and IFs
// nest, all items of a group meet at each BARRIER, and memory, items and work are
// bounded. Whether an access lies inside its buffer is decided later, by the
// bounds pass.
#ifndef KILN_COMPILER_SPEC_PROGRAM_SPEC_H_
#define KILN_COMPILER_SPEC_PROGRAM_SPEC_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"
#include "compiler/options/options.h"
#include "compiler/spec/spec.h"

namespace kiln::compiler {

// What one run of a program takes.
struct ProgramNeeds {
  int64_t groups[3] = {1, 1, 1};  // work groups along gidx0..2, or idx0..2; at most, where variables say how many
  int64_t items[3] = {1, 1, 1};   // items of a group along lidx0..2; at most
  int64_t local_bytes = 0;        // of one group
  int64_t register_bytes = 0;     // of one item
  int64_t instructions = 0;       // a vector counts each lane
  uint64_t work = 0;              // instructions run at most, by all items

  int64_t items_of_group() const { return items[0] * items[1] * items[2]; }
};

// Checks the program `root`, a LINEAR. The first fault in the order of the list
// is INVALID_ARGUMENT, UNSUPPORTED_OP for what is not built, or GRAPH_TOO_LARGE
// for a limit; it names the node if `graph` (which may be null) knows it.
absl::StatusOr<ProgramNeeds> VerifyProgram(UOp* root, const Limits& limits, const Graph* graph);

// A coordinate by its name: the letter 'g', 'l' or 'i' (of both at once: idx) and
// the axis. False for no such name.
bool ParseCoordinate(const std::string& name, char& kind, int& axis);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_SPEC_PROGRAM_SPEC_H_
