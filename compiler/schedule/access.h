// How the kernels of one choice of buffers reach a value: through which indices,
// how often, and how much of a kernel's loop nest those indices follow.
//
// A kernel has one loop for each axis of what it stores, outermost first. A value
// whose indices are the outer loops' counters alone, such as a row's maximum in a
// kernel over rows and columns, is needed once for each iteration of these loops: the
// code generator computes it there and not further in. `prefix` says how far that
// goes: so many iterations have the outer loops that the value's leading axes follow.
#ifndef KILN_COMPILER_SCHEDULE_ACCESS_H_
#define KILN_COMPILER_SCHEDULE_ACCESS_H_

#include <cstdint>
#include <vector>

#include "compiler/ir/graph.h"

namespace kiln::compiler {

struct Access {
  uint64_t path;       // equal for accesses that use equal indices in one kernel
  double evaluations;  // in all
  bool inside_reduce;
  const UOp* kernel;  // what it stores, or the STORE itself
  double prefix;
};

// Elements, with the greatest values of all variables.
double SizeOf(const UOp* uop);
// Whether an element of it is made of its sources' elements in the same place.
bool IsByElements(const UOp* uop);

// Adds one that uses other indices than those known.
void Merge(std::vector<Access>& accesses, const Access& access);

// How an access of `user` becomes one of its source number `slot`; a user that needs
// several elements of it has several copies. A REDUCE that collapses needs its
// source in one place only.
Access Through(const UOp* user, size_t slot, int copy, const Access& access, bool collapses);

// Whether a kernel that reaches `value` so needs each element of it once, in loops
// that stand outside all others.
bool FollowsOuterLoops(const UOp* value, const Access& access);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_SCHEDULE_ACCESS_H_
