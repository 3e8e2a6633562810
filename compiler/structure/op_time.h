// How long an operation takes on a core of a CPU.
//
// There are two answers, since there are two questions. The worst time is for promises: how
// many operations may lie between two looks at a stop. It takes each operation to wait for the
// one before, and each load from a place that was loaded to miss all caches. The usual time is
// for limits and queues: how long a run will take, give or take a small factor.
//
// The numbers are declared, not measured at start: code must not depend on the moment at which
// a server began. Tested by compiler/structure/stop_points_test and compiler/lower/cost_test; tests/bench/stop_bench.cc
// prints what the worst times promise and what happened.
#ifndef KILN_COMPILER_STRUCTURE_OP_TIME_H_
#define KILN_COMPILER_STRUCTURE_OP_TIME_H_

#include "absl/container/flat_hash_set.h"
#include "compiler/ir/uop.h"

namespace kiln::compiler {

// Goes through a list of instructions, a LINEAR of a kernel or a program, or through a kernel
// before it is a list, in the order in which they run: it remembers which values come from memory.
class OpTimes {
 public:
  struct Ns {
    double worst = 0, usual = 0;
  };
  // Of all elements of `uop`, run once. Loops and conditions are for the caller: 0 for RANGE, IF and their ends.
  Ns Next(const UOp* uop);

 private:
  absl::flat_hash_set<const UOp*> loaded_;  // and what is computed from that
};

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_STRUCTURE_OP_TIME_H_
