// What the rules that choose schedules ask of a kernel's loops and of the memory that they walk.
#ifndef KILN_COMPILER_OPT_LOOP_BODY_H_
#define KILN_COMPILER_OPT_LOOP_BODY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "compiler/kernel/ranges.h"

namespace kiln::compiler {

// What one closer (the END, or a REDUCE) evaluates in each of its iterations, without the REDUCEs in it.
struct LoopBody {
  std::vector<UOp*> ranges;    // that it closes
  RangeSet open;               // that it stands in
  std::vector<UOp*> accesses;  // LOADs and STOREs
  size_t work = 0;             // of its elementwise nodes (kernel/work.h)
  int widest = 1;              // bytes of the widest value, as it is computed with
};

LoopBody LoopBodyOf(UOp* closer, const RangeSet& open);

// The LOAD that moves along most loops: what is read once. Null if nothing is loaded.
const UOp* MainLoad(const LoopBody& body);

// A loop's; 0 if they are no number.
int64_t Iterations(const UOp* range);

// Iterations of all `ranges` together; one that is no number counts once.
int64_t IterationsOfAll(absl::Span<UOp* const> ranges);

// The largest power of two that divides a loop's iterations.
int64_t PowerOf2In(const UOp* range);

// The index of a LOAD or STORE.
UOp* PlaceOf(const UOp* access);

// Whether vectors of `amount` elements along `axis` begin at multiples of that, or `access` does not move along it.
bool BeginsAtMultiples(const UOp* access, const UOp* axis, int64_t amount);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_OPT_LOOP_BODY_H_
